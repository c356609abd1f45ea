//! Token ids in a row: what most of a payload consists of.
//!
//! An id takes 1, 2, 3 or 5 bytes, as its first one says, so where the next starts is known only after this one was looked at: two
//! reads of memory and an addition, one after the other, whatever else the processor could do. And as ids of different
//! length mix at random, a branch for each would be mispredicted for every second one. So the step that would lead on is worked
//! out for every byte first, which the compiler does for many bytes at a time; then one read and one addition lead from an id to the next.

use rmp::Marker;

/// Reads at most `count` ids from the start of `bytes`. How many bytes they took.
///
/// It stops early in front of what is no id in one of the usual forms, and near the end of `bytes`: the caller reads on one by one.
pub(super) fn read(bytes: &[u8], count: usize, out: &mut Vec<u32>) -> usize {
    let (mut rest, wanted) = (bytes, out.len() + count);
    let mut ids = [0; WINDOW];
    while let Some(window) = rest.first_chunk::<{ WINDOW + WORD }>() {
        let (read, taken) = read_window(window, (wanted - out.len()).min(WINDOW), &mut ids);
        out.extend_from_slice(&ids[..read]);
        rest = &rest[taken..];
        if taken < WINDOW {
            break;
        }
    }
    bytes.len() - rest.len()
}

/// Reads the ids that start in the first [`WINDOW`] bytes. How many they are, and how many bytes they took: fewer than that if it
/// stopped early.
#[inline]
fn read_window(window: &[u8; WINDOW + WORD], count: usize, ids: &mut [u32; WINDOW]) -> (usize, usize) {
    let mut steps = [0; WINDOW];
    for (step, first) in steps.iter_mut().zip(window) {
        *step = step_from(*first);
    }
    let (mut at, mut read) = (0, 0);
    while at < WINDOW && read < count && steps[at] > 0 {
        let step = usize::from(steps[at]);
        let word = window[at..].first_chunk().map_or(0, |word| u64::from_be_bytes(*word));
        #[expect(clippy::cast_possible_truncation, reason = "an id has at most four bytes")]
        let id = (word >> (8 * (WORD - step))) as u32;
        ids[read] = id & MASKS[step];
        (at, read) = (at + step, read + 1);
    }
    (read, at)
}

/// Bytes of the id that starts with this one. None if it may be of another form.
#[inline]
fn step_from(first: u8) -> u8 {
    let sized = |marker: Marker, bytes| if first == marker.to_u8() { bytes } else { 0 };
    let fixed = u8::from(first <= 0x7f);
    fixed | sized(Marker::U8, 2) | sized(Marker::U16, 3) | sized(Marker::U32, 5)
}

/// Bytes that are looked at together: some fifteen ids.
const WINDOW: usize = 64;

/// Bytes that one read takes in, an id among them.
const WORD: usize = size_of::<u64>();

/// The bits of an id that takes so many bytes, its first one included.
const MASKS: [u32; 6] = [0, 0x7f, 0xff, 0xffff, 0, u32::MAX];

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rmp::encode::write_uint;

    use super::*;

    fn encoded(ids: &[u32]) -> Vec<u8> {
        let mut bytes = Vec::new();
        ids.iter().for_each(|&id| _ = write_uint(&mut bytes, id.into()).unwrap());
        bytes
    }

    /// The ids that were read in a row from `bytes`, and the bytes that are left.
    fn read_all(bytes: &[u8], count: usize) -> (Vec<u32>, usize) {
        let mut out = vec![7];
        let taken = read(bytes, count, &mut out);
        (out.split_off(1), bytes.len() - taken)
    }

    #[test]
    fn it_stops_in_front_of_what_is_no_usual_id_and_goes_no_further_than_asked() {
        let ids: Vec<u32> = (0..1000).map(|id| id * 997).collect();
        let mut bytes = encoded(&ids);
        assert_eq!(read_all(&bytes, 3), (ids[..3].to_vec(), bytes.len() - encoded(&ids[..3]).len()));
        let at = encoded(&ids[..600]).len();
        for foreign in [0xcf, 0xff, 0xd3, 0xc0, 0x92, 0xc1] {
            bytes[at] = foreign;
            assert_eq!(read_all(&bytes, 1000), (ids[..600].to_vec(), bytes.len() - at), "{foreign:x}");
        }
    }

    proptest! {
        #[test]
        fn ids_of_all_lengths_are_read(
            ids in proptest::collection::vec(prop_oneof![0u32..256, 0u32..70_000, 0u32..200_000, any::<u32>()], 0..400),
        ) {
            let bytes = encoded(&ids);
            let (read, left) = read_all(&bytes, ids.len());
            prop_assert_eq!(&read[..], &ids[..read.len()]);
            prop_assert_eq!(left, encoded(&ids[read.len()..]).len());
            prop_assert!(left < WINDOW + WORD, "{} bytes are left for one by one", left);
        }
    }
}
