//! What any bytes can do to whoever takes them for a snapshot.

use kv_index::snapshot::{Loaded, Portable, Writer, load};
use kv_index::testing::assert_same;
use kv_index::{ChainIndex, ChainOptions, Index, ReferenceIndex};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

/// Every index makes the same of the same bytes: the same error and nothing else, or workers that hold the same and can be
/// written again.
///
/// Hardly any bytes have right checksums, so they are tried a second time with checksums made right.
pub fn snapshot_load(data: &[u8]) {
    load_everywhere(data);
    load_everywhere(&with_right_checksums(data));
}

fn load_everywhere(data: &[u8]) {
    let (chain, reference) = (chain(), ReferenceIndex::new());
    match (load(data, &chain), load(data, &reference)) {
        (Ok(ours), Ok(theirs)) => {
            assert_same(&chain, &reference);
            assert!(ours.iter().map(|loaded| &loaded.bytes).eq(theirs.iter().map(|loaded| &loaded.bytes)));
            write_again(&ours, &chain);
            write_again(&theirs, &chain);
        }
        (Err(ours), Err(theirs)) => assert_eq!(ours.to_string(), theirs.to_string()),
        (ours, theirs) => panic!("{:?} and {:?}", ours.err(), theirs.err()),
    }
    assert!(chain.workers().is_empty() && reference.workers().is_empty());
    assert_eq!(chain.stats().segments, 0);
}

/// What was loaded, written and loaded again is the same.
fn write_again<W: Portable>(workers: &[Loaded<W>], original: &ChainIndex) {
    let bytes = written(workers);
    let again = chain();
    let workers = load(&bytes[..], &again).expect("it was written by the writer");
    assert_same(original, &again);
    drop(workers);
}

fn written<W: Portable>(workers: &[Loaded<W>]) -> Vec<u8> {
    let mut snapshot = Writer::new(Vec::new()).expect("a vector takes everything");
    for loaded in workers {
        snapshot.worker(&loaded.bytes, &loaded.worker).expect("it was loaded");
    }
    snapshot.finish().expect("a vector takes everything")
}

fn chain() -> ChainIndex {
    ChainIndex::with_options(&ChainOptions { seed: Some([1, 2]), ..ChainOptions::default() })
}

/// The same, with the checksum of the header and of every frame that is whole made right.
fn with_right_checksums(data: &[u8]) -> Vec<u8> {
    let mut bytes = data.to_vec();
    let mut sealed = seal(&mut bytes, 0, 12, xxh3_64);
    while let Some((start, checksum)) = sealed {
        let length = bytes.get(start..start + 4).map(|length| u32::from_le_bytes(length.try_into().expect("four bytes")));
        sealed = length.and_then(|length| seal(&mut bytes, start, 4 + length as usize, |part| xxh3_64_with_seed(part, checksum)));
    }
    bytes
}

/// Writes the checksum of `length` bytes from `start` on behind them. Where the next part begins, and the checksum; none if the
/// bytes end before.
fn seal(bytes: &mut [u8], start: usize, length: usize, checksum: impl FnOnce(&[u8]) -> u64) -> Option<(usize, u64)> {
    let (part, rest) = bytes.get_mut(start..)?.split_at_mut_checked(length)?;
    let checksum = checksum(part);
    rest.get_mut(..8)?.copy_from_slice(&checksum.to_le_bytes());
    Some((start + length + 8, checksum))
}

#[cfg(test)]
mod tests {
    use kv_index::snapshot::LoadError;

    use super::*;

    /// So that the replay does not only replay errors.
    #[test]
    fn every_file_of_the_corpus_is_a_snapshot() -> Result<(), LoadError> {
        for entry in std::fs::read_dir("corpus/snapshot_load").unwrap() {
            let bytes = std::fs::read(entry.unwrap().path()).unwrap();
            load(&bytes[..], &chain())?;
            assert_eq!(with_right_checksums(&bytes), bytes);
        }
        Ok(())
    }
}
