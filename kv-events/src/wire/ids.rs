//! Token ids in a row: what most of a payload consists of.
//!
//! An id takes 1, 2, 3 or 5 bytes, as its first one says, so where the next starts is known only after this one was looked at: two
//! reads of memory and an addition, one after the other, whatever else the processor could do. And as ids of different
//! length mix at random, a branch for each would be mispredicted for every second one. So where the next id starts, and the one
//! after it, is worked out for every byte first, which the compiler does for many bytes at a time; then one read leads from an id
//! to the next but one.

use rmp::Marker;

/// Reads ids into `out`, from the place `from` of `list`. How many they are, and how many bytes they took.
///
/// It stops early in front of what is no id in one of the usual forms, near the end of `list`, and where less than [`GROUP`] are
/// wanted: the caller reads on one by one. At least [`LEAD`] bytes stand in front of `from`.
pub(super) fn read(list: &[u8], from: usize, out: &mut [u32]) -> (usize, usize) {
    let (mut at, mut read) = (from, 0);
    while out.len() - read >= GROUP
        && let Some(window) = at.checked_sub(LEAD).and_then(|start| list.get(start..)?.first_chunk())
    {
        let (ids, bytes) = read_window(window, &mut out[read..]);
        (at, read) = (at + bytes, read + ids);
        if bytes < WINDOW {
            break;
        }
    }
    (read, at - from)
}

/// The ids that start in the first [`WINDOW`] places, read into `out`. How many they are, and how many bytes they took: fewer than
/// that if it stopped early. What stands behind the ids in `out` means nothing.
///
/// In groups, so that one test does for several ids: where there is no id the next one is none either, so the last one of a
/// group tells of them all.
#[inline]
fn read_window(window: &[u8; LEAD + PLACES], out: &mut [u32]) -> (usize, usize) {
    let next = Next::of(window);
    let (mut at, mut read) = (0, 0);
    for group in out.as_chunks_mut::<GROUP>().0 {
        let (start, mut last) = (at, at);
        for [first, second] in group.as_chunks_mut::<2>().0 {
            // Never beyond the last place: this only says so.
            let from = at % PLACES;
            last = usize::from(next.one[from]);
            at = usize::from(next.two[from]);
            *first = id_between(window, from, last);
            *second = id_between(window, last, at);
        }
        if last == at {
            let (ids, end) = next.follow(start);
            return (read + ids, end);
        }
        read += GROUP;
    }
    (read, at)
}

/// For each place of a window, where the next id starts if one does here, and the one after that. Itself where none does.
struct Next {
    one: [u8; PLACES],
    two: [u8; PLACES],
}

impl Next {
    /// Not inlined: the compiler does many bytes at a time only where it sees nothing else.
    #[inline(never)]
    fn of(window: &[u8; LEAD + PLACES]) -> Self {
        let mut steps = [0; PLACES + STEP_MAX];
        for (step, first) in steps[..WINDOW].iter_mut().zip(&window[LEAD..]) {
            *step = step_from(*first);
        }
        let shifted = |by: usize| steps[by..].first_chunk::<PLACES>().expect("no step is longer");
        let (now, one, two, three, five) = (shifted(0), shifted(1), shifted(2), shifted(3), shifted(STEP_MAX));
        #[expect(clippy::cast_possible_truncation, reason = "places fit in a byte")]
        let behind = |at: usize, steps: u8| (at as u8).wrapping_add(steps);
        Self {
            one: std::array::from_fn(|at| behind(at, now[at])),
            two: std::array::from_fn(|at| {
                let after = |bytes, step| if now[at] == bytes { step } else { 0 };
                behind(at, now[at] + (after(1, one[at]) | after(2, two[at]) | after(3, three[at]) | after(5, five[at])))
            }),
        }
    }

    /// How many ids there are from `at` on, and where the last one ends.
    fn follow(&self, mut at: usize) -> (usize, usize) {
        let mut ids = 0;
        while usize::from(self.one[at]) != at {
            (at, ids) = (usize::from(self.one[at]), ids + 1);
        }
        (ids, at)
    }
}

/// The id that starts at `from` and ends in front of `to`: of the last four bytes, those that are its own.
#[inline]
fn id_between(window: &[u8; LEAD + PLACES], from: usize, to: usize) -> u32 {
    let word = window[to..].first_chunk().map_or(0, |word| u32::from_be_bytes(*word));
    word & MASKS[to.wrapping_sub(from) % MASKS.len()]
}

/// Bytes of the id that starts with this one. None if it may be of another form.
#[inline]
fn step_from(first: u8) -> u8 {
    let sized = |marker: Marker, bytes| if first == marker.to_u8() { bytes } else { 0 };
    let fixed = u8::from(first <= 0x7f);
    fixed | sized(Marker::U8, 2) | sized(Marker::U16, 3) | sized(Marker::U32, 5)
}

/// Bytes that are looked at together: as many as a byte can count, so that no place needs a check.
const PLACES: usize = 256;

/// Bytes in which ids may start: some sixty. The last one ends, and the next would start, among the places behind them, from which no
/// step leads on.
const WINDOW: usize = PLACES - 8;

/// Bytes of the longest id.
const STEP_MAX: usize = 5;

/// Bytes in front of a window: an id is read as the last bytes of a word, and the first one may be shorter than that.
pub(super) const LEAD: usize = 4;

/// Ids that are read before it is asked whether they were ids.
const GROUP: usize = 4;

/// The bits of an id that takes so many bytes, its first one included. As long as a step could be, so that none needs a check.
const MASKS: [u32; 8] = {
    let mut masks = [0; 8];
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
        let list = [&[0xff; LEAD], bytes].concat();
        let mut out = vec![7; count];
        let (ids, taken) = read(&list, LEAD, &mut out);
        out.truncate(ids);
        (out, bytes.len() - taken)
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
            let near_end = left < PLACES || ids.len() - read.len() < GROUP;
            prop_assert!(near_end, "{} bytes are left for one by one", left);
        }
    }
}
