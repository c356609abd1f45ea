//! Token ids in a row: what most of a payload consists of.
//!
//! An id takes 1, 2, 3 or 5 bytes, as its first one says, so where the next starts is known only after this one was looked at: two
//! reads of memory and an addition, one after the other, whatever else the processor could do. And as ids of different
//! length mix at random, a branch for each would be mispredicted for every second one. So the step that would lead on, and the one
//! after it, are worked out for every byte first, which the compiler does for many bytes at a time; then one read and one
//! addition lead from an id to the next but one.

use rmp::Marker;

/// Reads at most `count` ids from the start of `bytes`. How many bytes they took.
///
/// It stops early in front of what is no id in one of the usual forms, near the end of `bytes`, and where less than [`GROUP`] are
/// wanted: the caller reads on one by one.
pub(super) fn read(bytes: &[u8], count: usize, out: &mut Vec<u32>) -> usize {
    let (mut rest, wanted) = (bytes, out.len() + count);
    let mut ids = [0; WINDOW];
    while let Some(window) = rest.first_chunk::<{ PLACES + WORD }>() {
        let (read, taken) = read_window(window, &mut ids[..(wanted - out.len()).min(WINDOW)]);
        out.extend_from_slice(&ids[..read]);
        rest = &rest[taken..];
        if taken < WINDOW {
            break;
        }
    }
    bytes.len() - rest.len()
}

/// Reads the ids that start in the first [`WINDOW`] bytes. How many they are, and how many bytes they took: fewer than that if it
/// stopped early. What stands behind the ids in `out` means nothing.
///
/// In groups, so that one test does for several ids: where there is no step the next one is none either, so the last one of a
/// group tells of them all.
#[inline]
fn read_window(window: &[u8; PLACES + WORD], out: &mut [u32]) -> (usize, usize) {
    let steps = steps(window);
    let twos = two_steps(&steps);
    let (mut at, mut read) = (0, 0);
    for group in out.as_chunks_mut::<GROUP>().0 {
        let (start, mut last) = (at, 0);
        for [first, second] in group.as_chunks_mut::<2>().0 {
            let step = steps[at];
            // Never beyond the last place: this only says so.
            let between = (at + usize::from(step)) % PLACES;
            last = steps[between];
            *first = id_at(window, at, step);
            *second = id_at(window, between, last);
            at = (at + usize::from(twos[at])) % PLACES;
        }
        if last == 0 {
            return (read + steps_from(start, &steps), at);
        }
        read += GROUP;
    }
    (read, at)
}

/// For each place, the step from it; none from those behind the window.
#[inline]
fn steps(window: &[u8; PLACES + WORD]) -> [u8; PLACES + WORD] {
    let mut steps = [0; PLACES + WORD];
    for (step, first) in steps[..WINDOW].iter_mut().zip(window) {
        *step = step_from(*first);
    }
    steps
}

/// For each place, the step from it and the one after that. Just the step where there is none after it.
#[inline]
fn two_steps(steps: &[u8; PLACES + WORD]) -> [u8; PLACES] {
    let shifted = |by: usize| steps[by..].first_chunk::<PLACES>().expect("no id is longer than a word");
    let (now, one, two, three, five) = (shifted(0), shifted(1), shifted(2), shifted(3), shifted(5));
    std::array::from_fn(|at| {
        let after = |bytes, step| if now[at] == bytes { step } else { 0 };
        now[at] + (after(1, one[at]) | after(2, two[at]) | after(3, three[at]) | after(5, five[at]))
    })
}

/// The id of `step` bytes at `at`.
#[inline]
fn id_at(window: &[u8; PLACES + WORD], at: usize, step: u8) -> u32 {
    let word = window[at..].first_chunk().map_or(0, |word| u64::from_be_bytes(*word));
    #[expect(clippy::cast_possible_truncation, reason = "an id has at most four bytes")]
    let id = word.rotate_left(8 * u32::from(step)) as u32;
    id & MASKS[usize::from(step)]
}

/// How many steps lead on from `at`.
fn steps_from(mut at: usize, steps: &[u8; PLACES + WORD]) -> usize {
    let mut count = 0;
    while steps[at % PLACES] > 0 {
        (at, count) = (at + usize::from(steps[at % PLACES]), count + 1);
    }
    count
}

/// Bytes of the id that starts with this one. None if it may be of another form.
#[inline]
fn step_from(first: u8) -> u8 {
    let sized = |marker: Marker, bytes| if first == marker.to_u8() { bytes } else { 0 };
    let fixed = u8::from(first <= 0x7f);
    fixed | sized(Marker::U8, 2) | sized(Marker::U16, 3) | sized(Marker::U32, 5)
}

/// Bytes that are looked at together: a power of two, so that no place needs a check.
const PLACES: usize = 128;

/// Bytes in which ids may start: some thirty. The last one ends, and the next would start, among the places behind them, from which no
/// step leads on.
const WINDOW: usize = PLACES - WORD;

/// Bytes that one read takes in, an id among them.
const WORD: usize = size_of::<u64>();

/// Ids that are read before it is asked whether they were ids.
const GROUP: usize = 4;

/// The bits of an id that takes so many bytes, its first one included. As long as a step could be, so that none needs a check.
const MASKS: [u32; 256] = {
    let mut masks = [0; 256];
    (masks[1], masks[2], masks[3], masks[5]) = (0x7f, 0xff, 0xffff, u32::MAX);
    masks
};

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
        for count in [4, 7, 8, 400, 401] {
            let (read, left) = read_all(&bytes, count);
            assert!(read.len() <= count && count - read.len() < GROUP, "{} of {count}: less than a group is left", read.len());
            assert_eq!((&read[..], left), (&ids[..read.len()], bytes.len() - encoded(&ids[..read.len()]).len()));
        }
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
            let near_end = left < PLACES + WORD || ids.len() - read.len() < GROUP;
            prop_assert!(near_end, "{} bytes are left for one by one", left);
        }
    }
}
