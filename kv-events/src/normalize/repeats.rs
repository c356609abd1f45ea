//! Whether a store names one block twice.
//!
//! Nearly none does, and to sort the names of each would be one of the dearest parts of reading it. So a table of what 32 bits of
//! their hashes say is asked first: where no two are alike there, no two names are.

/// Whether two of the names are one.
pub(super) fn any_twice(names: impl Iterator<Item = u64> + Clone, count: usize) -> bool {
    count > 1 && (may_repeat(names.clone(), count) && sorted_has_twice(names))
}

/// Whether two of the names may be one. What is long, or has names that are alike on purpose, may.
fn may_repeat(names: impl Iterator<Item = u64>, count: usize) -> bool {
    if count > NAMES_MAX {
        return true;
    }
    let mut marks = vec![0u32; (2 * count).next_power_of_two()];
    let last = marks.len() - 1;
    let mut steps = count * STEPS_PER_NAME;
    for name in names {
        let hash = name.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        // 0 is no mark.
        let (mark, mut at) = ((hash >> 32) as u32 | 1, (hash >> 20) as usize & last);
        while marks[at & last] != 0 {
            if marks[at & last] == mark || steps == 0 {
                return true;
            }
            (at, steps) = (at + 1, steps - 1);
        }
        marks[at & last] = mark;
    }
    false
}

fn sorted_has_twice(names: impl Iterator<Item = u64>) -> bool {
    let mut names: Vec<u64> = names.collect();
    names.sort_unstable();
    names.windows(2).any(|two| two[0] == two[1])
}

/// Most names for which there is a table: one that fits the fastest cache of any machine.
const NAMES_MAX: usize = 2048;

/// Steps in the table for which sorting costs no more.
const STEPS_PER_NAME: usize = 4;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn twice(names: &[u64]) -> bool {
        any_twice(names.iter().copied(), names.len())
    }

    #[test]
    fn one_name_twice_is_found_wherever_it_stands() {
        for count in [1, 2, 3, 100, NAMES_MAX as u64, NAMES_MAX as u64 + 1] {
            for stride in [1, 1 << 20, 1 << 44, 0x1234_5678_9abc_def1] {
                let mut names: Vec<u64> = (0..count).map(|name| name.wrapping_mul(stride)).collect();
                assert!(!twice(&names), "{count} names {stride:x} apart");
                for again in [0, count / 2, count - 1] {
                    names.push(names[usize::try_from(again).unwrap()]);
                    assert!(twice(&names), "the name {again} of {count} that are {stride:x} apart");
                    names.pop();
                }
            }
        }
        assert!(!twice(&[]));
    }

    /// All begin at one place of the table, and some have one mark: they are sorted, and told apart.
    #[test]
    fn names_that_are_alike_on_purpose_are_sorted() {
        let inverse =
            (0..6).fold(1u64, |inverse, _| inverse.wrapping_mul(2u64.wrapping_sub(inverse.wrapping_mul(0x9e37_79b9_7f4a_7c15))));
        let crowded: Vec<u64> = (1..1000).map(|name: u64| (name << 40).wrapping_mul(inverse)).collect();
        assert!(may_repeat(crowded.iter().copied(), crowded.len()) && !twice(&crowded));
        let alike: Vec<u64> = (0..5).map(|name: u64| name.wrapping_mul(inverse)).collect();
        assert!(may_repeat(alike.iter().copied(), alike.len()) && !twice(&alike));
    }

    #[test]
    fn names_without_a_pattern_are_hardly_ever_sorted() {
        let random = |seed: u64| {
            move |nth: u64| {
                (seed << 32 | nth).wrapping_mul(0xd6e8_feb8_6659_fd93).rotate_left(31).wrapping_mul(0xd6e8_feb8_6659_fd93)
            }
        };
        let sorted = (0..1000).filter(|&seed| may_repeat((0..101).map(random(seed)), 101)).count();
        assert!(sorted < 5, "{sorted} of 1,000 stores");
    }

    proptest! {
        #[test]
        fn it_equals_a_set(names in proptest::collection::vec(prop_oneof![0u64..300, any::<u64>()], 0..60)) {
            let set: std::collections::HashSet<_> = names.iter().collect();
            prop_assert_eq!(twice(&names), set.len() < names.len());
        }
    }
}
