//! Nothing that is damaged, cut short or made up is loaded, and the error says what was wrong and where.

use std::io::{self, ErrorKind, Read};

use kv_index::snapshot::{LoadError, WriteError, Writer, load};
use kv_index::testing::assert_same;
use kv_index::{
    BlockName, ChainIndex, ChainOptions, ContentHash, Digest, Index, ReferenceIndex, StoreError, View, WorkersExhausted,
};

use crate::shared::{chain, loaded, refused, small, written};
use crate::wire::Wire;

#[test]
fn every_bit_counts() {
    let index = chain();
    let whole = written(&small(chain()));
    let mut damaged = whole.clone();
    for at in 0..whole.len() {
        for bit in 0..8 {
            damaged[at] ^= 1 << bit;
            refused(&damaged, &index);
            damaged[at] = whole[at];
        }
    }
    assert_eq!(index.stats().segments, 0);
    assert_same(loaded(&damaged, index).index(), small(chain()).index());
}

#[test]
fn every_byte_counts() {
    let whole = written(&small(chain()));
    for len in 0..whole.len() {
        match refused(&whole[..len], &chain()) {
            LoadError::Truncated { offset, missing } => assert!(offset == len as u64 && missing > 0, "{offset} of {len}"),
            other => panic!("cut to {len} bytes: {other}"),
        }
    }
}

#[test]
fn a_frame_that_is_missing_doubled_or_moved_is_found_out() {
    let whole = written(&small(chain()));
    let mut frames = vec![&whole[..20]];
    let mut rest = &whole[20..];
    while let Some(length) = rest.first_chunk() {
        let (frame, after) = rest.split_at(4 + u32::from_le_bytes(*length) as usize + 8);
        frames.push(frame);
        rest = after;
    }
    assert_eq!(frames.len(), 4, "a header, two workers and the end");
    for order in [vec![0, 2, 3], vec![0, 1, 3], vec![0, 1, 1, 2, 3], vec![0, 2, 1, 3], vec![0, 1, 2, 2, 3]] {
        let bytes: Vec<u8> = order.iter().flat_map(|&frame| frames[frame]).copied().collect();
        assert!(matches!(refused(&bytes, &chain()), LoadError::Checksum { .. }), "{order:?}");
    }
}

#[test]
fn what_was_there_stays_as_it_was() {
    let (driver, reference) = (small(chain()), small(ReferenceIndex::new()));
    let mut bytes = written(&driver);
    let segments = driver.index().stats().segments;
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    refused(&bytes, driver.index());
    assert_same(driver.index(), reference.index());
    assert_eq!(driver.index().stats().segments, segments);
}

#[test]
fn nothing_is_read_behind_the_end() {
    let whole = written(&small(chain()));
    let two = [&whole[..], &whole, b"and something else"].concat();
    let mut stream = &two[..];
    for _ in 0..2 {
        assert_eq!(load(&mut stream, &chain()).unwrap().len(), 2);
    }
    assert_eq!(stream, b"and something else");
}

#[test]
fn something_else_is_no_snapshot() {
    assert_eq!(refused(b"PK\x03\x04 and so on", &chain()).to_string(), {
        "the stream begins with [50, 4b, 03, 04, 20, 61, 6e, 64], a snapshot with [89, 6b, 76, 69, 6e, 64, 65, 78]"
    });
    let later = b"\x89kvindex\x02\0\0\0, with a checksum elsewhere";
    assert_eq!(refused(later, &chain()).to_string(), "the snapshot is of version 2, known is 1");
}

#[test]
fn an_error_says_what_was_wrong_and_where() {
    let errors: Vec<(Wire, &str)> = vec![
        (Wire::new().record(&[&[7]]), "the record's kind in the record at byte 24 is 7, expected 1 to 6"),
        (Wire::new().record(&[&[0]]), "the record's kind in the record at byte 24 is 0, expected 1 to 6"),
        (Wire::new().worker(0, b""), "the number of views in the record at byte 24 is 0, expected 1 to 32"),
        (Wire::new().worker(33, b""), "the number of views in the record at byte 24 is 33, expected 1 to 32"),
        (
            Wire::new().record(&[&[1, 1], &u32::MAX.to_le_bytes()]),
            "the length of the worker's bytes in the record at byte 24 is 4294967295, expected 0 to 32768",
        ),
        (
            Wire::new().record(&[&[1, 1], &9u32.to_le_bytes(), b"short"]),
            "the worker's bytes at byte 30 takes 9 bytes, of which the frame has 5",
        ),
        (Wire::new().record(&[&[1]]), "the number of views at byte 25 takes 1 bytes, of which the frame has 0"),
        (Wire::new().stretch(0, 0, &[1]), "a stretch at byte 24, expected a worker or the snapshot's end"),
        (Wire::new().worker(1, b"").end(), "the snapshot's end at byte 30, expected the open worker's end"),
        (Wire::new().worker(1, b"").worker(1, b""), "a worker at byte 30, expected the open worker's end"),
        (Wire::new().end().end(), "the snapshot's end at byte 25, expected nothing behind the snapshot's end"),
        (Wire::new().worker(1, b"").stretch(1, 1, &[1]), "the record at byte 30 speaks of stretch 0, where 0 are known"),
        (
            Wire::new().worker(1, b"").stretch(0, 1, &[1]),
            "the places before the stretch in the record at byte 30 is 1, expected 0 to 0",
        ),
        (
            Wire::new().worker(1, b"").stretch(0, 0, &[1]).stretch(1, 0, &[2]),
            "the places before the stretch in the record at byte 61 is 0, expected 1 to 64",
        ),
        (
            Wire::new().worker(1, b"").stretch(0, 0, &[1]).stretch(1, 2, &[2]),
            "the places before the stretch in the record at byte 61 is 2, expected 1 to 1",
        ),
        (
            Wire::new().worker(1, b"").record(&[&[2], &[0; 5], &[65]]),
            "the stretch's length in the record at byte 30 is 65, expected 1 to 64",
        ),
        (
            Wire::new().worker(1, b"").record(&[&[2], &[0; 5], &[0]]),
            "the stretch's length in the record at byte 30 is 0, expected 1 to 64",
        ),
        (
            Wire::new().worker(1, b"").record(&[&[2], &[0; 5], &[3], &8u64.to_le_bytes()]),
            "the places with agreed names in the record at byte 30 is 0x8, expected some of 0x7 and no other bits",
        ),
        (Wire::new().worker(1, b"").held(0, 1, 1), "the record at byte 30 speaks of stretch 0, where 0 are known"),
        (
            Wire::new().worker(2, b"").stretch(0, 0, &[1]).held(0, 4, 1),
            "the holding views in the record at byte 61 is 0x4, expected some of 0x3 and no other bits",
        ),
        (
            Wire::new().worker(1, b"").stretch(0, 0, &[1]).held(0, 0, 1),
            "the holding views in the record at byte 61 is 0x0, expected some of 0x1 and no other bits",
        ),
        (
            Wire::new().worker(1, b"").stretch(0, 0, &[1]).held(0, 1, 2),
            "the held places in the record at byte 61 is 0x2, expected some of 0x1 and no other bits",
        ),
        (
            Wire::new().worker(1, b"").record(&[&[2], &[0; 5], &[2], &1u64.to_le_bytes(), &[0; 24]]).held(0, 1, 3),
            "the held places in the record at byte 69 is 0x3, expected some of 0x1 and no other bits",
        ),
        (
            Wire::new().worker(1, b"").stretch(0, 0, &[1]).held(0, 1, 0),
            "the held places in the record at byte 61 is 0x0, expected some of 0x1 and no other bits",
        ),
        (
            Wire::new().worker(1, b"").stretch(0, 0, &[1]).held(0, 1, 1).held(0, 1, 1),
            "the record at byte 78 holds a name that the worker holds already",
        ),
        (
            Wire::new().worker(1, b"").stretch(0, 0, &[1]).held(0, 1, 1).stretch(0, 0, &[2]).held_otherwise(1, 1, 1, &[1]),
            "the record at byte 109 holds a name that the worker holds already",
        ),
        (
            Wire::new().worker(1, b"").stretch(0, 0, &[1, 2]).held_otherwise(0, 1, 3, &[7, 7]),
            "the record at byte 77 holds a name that the worker holds already",
        ),
        (
            Wire::new().worker(2, b"").worker_end(&[Digest::default()]),
            "the number of views in the record at byte 30 is 1, expected 2 to 2",
        ),
    ];
    for (wire, expected) in errors {
        let bytes = wire.bytes();
        let index = chain();
        assert_eq!(refused(&bytes, &index).to_string(), expected);
        assert_eq!(index.stats().segments, 0, "{expected}");
        assert_eq!(refused(&bytes, &ReferenceIndex::new()).to_string(), expected);
    }
}

#[test]
fn a_worker_that_does_not_hold_what_it_held_is_refused() {
    let mut expected = Digest::default();
    expected.add(0, ContentHash(1), BlockName(1));
    let wire = || Wire::new().worker(1, b"").stretch(0, 0, &[1, 2]).held(0, 1, 1);
    let good = wire().worker_end(&[expected]).end().bytes();
    assert_eq!(load(&good[..], &chain()).unwrap().len(), 1);
    let wrong = Digest { count: 2, ..expected };
    match refused(&wire().worker_end(&[wrong]).end().bytes(), &chain()) {
        LoadError::Digest { offset: 94, view: View::MAIN, expected: said, got } => assert_eq!((said, got), (wrong, expected)),
        other => panic!("{other}"),
    }
}

#[test]
fn a_length_that_lies_is_refused_before_anything_is_read_for_it() {
    let header = &Wire::new().end().bytes()[..20];
    for length in [0u32, 65_537, u32::MAX] {
        let stream = [header, &length.to_le_bytes()].concat();
        let expected = format!("a frame's length in the record at byte 20 is {length}, expected 1 to 65536");
        assert_eq!(refused(&stream, &chain()).to_string(), expected);
    }
}

#[test]
fn an_index_without_room_takes_nothing() {
    let bytes = written(&small(chain()));
    let narrow = ChainIndex::with_options(&ChainOptions { workers_max: Some(1), ..ChainOptions::default() });
    assert!(matches!(refused(&bytes, &narrow), LoadError::Workers { source: WorkersExhausted { max: 1 }, .. }));
    let poor = ChainIndex::with_options(&ChainOptions { budget_bytes: Some(1), ..ChainOptions::default() });
    assert!(matches!(refused(&bytes, &poor), LoadError::Store { source: StoreError::OverBudget { budget_bytes: 1, .. }, .. }));
    assert_eq!((narrow.stats().segments, poor.stats().segments), (0, 0));
}

/// Hands out a byte at a time, with interruptions, and then an error.
struct Stutter<'a> {
    bytes: &'a [u8],
    turn: bool,
}

impl Read for Stutter<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        self.turn = !self.turn;
        if self.turn {
            return Err(ErrorKind::Interrupted.into());
        }
        let Some((&first, rest)) = self.bytes.split_first() else { return Err(io::Error::other("the line went dead")) };
        (out[0], self.bytes) = (first, rest);
        Ok(1)
    }
}

#[test]
fn a_reader_may_stutter_and_its_errors_say_where() {
    let bytes = written(&small(chain()));
    let index = chain();
    assert_eq!(load(Stutter { bytes: &bytes, turn: false }, &index).unwrap().len(), 2);
    let Err(error) = load(Stutter { bytes: &bytes[..100], turn: false }, &index) else { panic!("loaded") };
    assert_eq!(error.to_string(), "cannot read at byte 100: the line went dead");
    assert_eq!(index.stats().segments, 0);
}

#[test]
fn more_bytes_than_a_snapshot_keeps_are_refused_and_nothing_of_them_is_written() {
    let index = chain();
    let worker = index.add_worker().unwrap();
    let mut snapshot = Writer::new(Vec::new()).unwrap();
    let error = snapshot.worker(&vec![0; 32_769], &worker).unwrap_err();
    assert!(matches!(error, WriteError::WorkerBytes { bytes: 32_769, max: 32_768 }));
    snapshot.worker(&vec![7; 32_768], &worker).unwrap();
    let bytes = snapshot.finish().unwrap();
    let workers = load(&bytes[..], &chain()).unwrap();
    assert_eq!(workers.len(), 1);
    assert_eq!(workers[0].bytes, vec![7; 32_768]);
}
