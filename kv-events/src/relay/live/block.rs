//! One block of an engine's cache as the relay keeps it: where it stands, what it contains, and how often it is held where.

use std::num::NonZeroU64;
use std::sync::Arc;

use kv_index::{BlockName, ContentHash};

use super::pages::Slot;
use crate::ExtraKey;
use crate::copies::CopyRule;
use crate::limits::GROUPS_MAX;
use crate::namespace::OwnedNamespace;
use crate::normalize::GroupId;
use crate::tier::Tier;

/// A block, or a step of the path to one: a block that nobody holds any more, or that was never listed, below which blocks are held.
///
/// 48 bytes. The tokens that the content covers stand beside the pages.
#[derive(Clone, Debug)]
pub(in crate::relay) struct LiveBlock {
    /// Meaningless in a step.
    pub(in crate::relay) name: BlockName,
    /// The content of the whole path to here, this block's included.
    pub(in crate::relay) place: Place,
    /// [`ROOT`] where a prompt starts.
    pub(in crate::relay) parent: Slot,
    /// How many blocks name this one as their parent.
    pub(in crate::relay) children: u32,
    pub(in crate::relay) copies: CopySet,
    /// Nothing for a block of the base namespace whose content is its tokens.
    pub(in crate::relay) extra: Option<Arc<Extra>>,
}

/// What else than tokens makes a block different.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::relay) struct Extra {
    pub(in crate::relay) namespace: Option<Arc<OwnedNamespace>>,
    pub(in crate::relay) keys: Vec<ExtraKey>,
}

/// A path's content in 64 bits, never 0, so that an absent block takes no more room than a block. Only paths that one name is
/// stored at are ever compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::relay) struct Place(NonZeroU64);

/// The parent of a prompt's first block.
pub(in crate::relay) const ROOT: Slot = Slot::MAX;

/// A cache group on a tier: where copies are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::relay) struct Shelf(u8);

/// Physical copies of one block, by shelf.
#[derive(Clone, Debug)]
pub(in crate::relay) enum CopySet {
    /// On at most four shelves; unused entries are 0.
    Few([Copies; 4]),
    /// On more.
    Many(Arc<[Copies]>),
}

/// Copies on one shelf: the shelf in the upper six bits, their number in the lower ten.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::relay) struct Copies(u16);

/// What a store made of the copies on a shelf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::relay) enum Added {
    /// The shelf holds the block now, and did not before.
    First,
    /// One more is counted.
    Further,
    /// Nothing: the engine announced again what it has.
    Again,
    /// Nothing: there are more than are counted.
    Full,
}

impl LiveBlock {
    pub(in crate::relay) fn is_held(&self) -> bool {
        !self.copies.is_empty()
    }

    pub(in crate::relay) fn namespace(&self) -> Option<&Arc<OwnedNamespace>> {
        self.extra.as_ref()?.namespace.as_ref()
    }

    pub(in crate::relay) fn keys(&self) -> &[ExtraKey] {
        self.extra.as_ref().map_or(&[], |extra| &extra.keys)
    }

    #[cfg(test)]
    pub(in crate::relay) fn for_test(name: BlockName) -> Self {
        let copies = CopySet::default();
        Self { name, place: Place::of(name.0), parent: ROOT, children: 0, copies, extra: None }
    }
}

impl Place {
    /// Where prompts start.
    pub(in crate::relay) const START: Self = Self::of(0x243f_6a88_85a3_08d3);

    const fn of(word: u64) -> Self {
        match NonZeroU64::new(word) {
            Some(word) => Self(word),
            None => Self(NonZeroU64::MIN),
        }
    }

    /// The 64 bits.
    pub(in crate::relay) fn word(self) -> u64 {
        self.0.get()
    }

    /// The place of a block with this content below this one.
    pub(in crate::relay) fn below(self, content: ContentHash) -> Self {
        let product = u128::from(self.word() ^ 0x9e37_79b9_7f4a_7c15) * u128::from(content.0 ^ 0x452_821e_638d_0137);
        #[expect(clippy::cast_possible_truncation, reason = "both halves are folded together")]
        Self::of((product as u64 ^ (product >> 64) as u64).wrapping_add(self.word().rotate_left(32)))
    }
}

impl Shelf {
    /// How many shelves there are.
    pub(in crate::relay) const COUNT: usize = GROUPS_MAX * Tier::ALL.len();

    pub(in crate::relay) fn new(group: GroupId, tier: Tier) -> Self {
        debug_assert!(usize::from(group.0) < GROUPS_MAX, "the normalizer scores no more groups");
        Self(group.0 << 2 | tier as u8)
    }

    pub(in crate::relay) fn group(self) -> GroupId {
        GroupId(self.0 >> 2)
    }

    pub(in crate::relay) fn tier(self) -> Tier {
        Tier::ALL[usize::from(self.0 & 3)]
    }

    pub(in crate::relay) fn index(self) -> usize {
        usize::from(self.0)
    }

    /// All shelves, the faster tiers first: whoever serves only the faster tiers finds every parent among what it serves.
    pub(in crate::relay) fn all() -> impl Iterator<Item = Self> {
        let groups = 0..u8::try_from(GROUPS_MAX).expect("groups fit in a byte");
        Tier::ALL.into_iter().flat_map(move |tier| groups.clone().map(move |group| Self::new(GroupId(group), tier)))
    }
}

impl Copies {
    /// Most copies of one block on one shelf that are told apart. Concurrent prompts of one prefix make a few; a thousand at a
    /// time are more sequences than any engine runs. Beyond it the number stays, and each further one is counted as such.
    pub(in crate::relay) const MAX: u16 = (1 << 10) - 1;

    fn of(shelf: Shelf, count: u16) -> Self {
        debug_assert!((1..=Self::MAX).contains(&count));
        Self(u16::from(shelf.0) << 10 | count)
    }

    pub(in crate::relay) fn shelf(self) -> Shelf {
        Shelf((self.0 >> 10) as u8)
    }

    /// How many there are: at least 1, unless the entry is unused.
    pub(in crate::relay) fn count(self) -> u16 {
        self.0 & Self::MAX
    }
}

impl CopySet {
    /// One copy.
    pub(super) fn one(shelf: Shelf) -> Self {
        Self::Few([Copies::of(shelf, 1), Copies::default(), Copies::default(), Copies::default()])
    }

    pub(in crate::relay) fn is_empty(&self) -> bool {
        self.iter().next().is_none()
    }

    pub(in crate::relay) fn iter(&self) -> impl Iterator<Item = Copies> + '_ {
        self.entries().iter().copied().filter(|copies| copies.count() > 0)
    }

    /// How many copies there are on `shelf`.
    pub(in crate::relay) fn on(&self, shelf: Shelf) -> u16 {
        self.iter().find(|copies| copies.shelf() == shelf).map_or(0, Copies::count)
    }

    pub(super) fn add(&mut self, shelf: Shelf, rule: CopyRule) -> Added {
        let known = self.entries_mut().iter_mut().find(|copies| copies.count() > 0 && copies.shelf() == shelf);
        let Some(known) = known else {
            self.push(Copies::of(shelf, 1));
            return Added::First;
        };
        match (rule, known.count()) {
            (CopyRule::Reannounced, _) => Added::Again,
            (CopyRule::Counted, Copies::MAX) => Added::Full,
            (CopyRule::Counted, count) => {
                *known = Copies::of(shelf, count + 1);
                Added::Further
            }
        }
    }

    /// Takes one copy away. How many are left on the shelf; nothing if there was none.
    pub(super) fn remove(&mut self, shelf: Shelf) -> Option<u16> {
        let known = self.entries_mut().iter_mut().find(|copies| copies.count() > 0 && copies.shelf() == shelf)?;
        let left = known.count() - 1;
        *known = if left > 0 { Copies::of(shelf, left) } else { Copies::default() };
        Some(left)
    }

    fn push(&mut self, copies: Copies) {
        match self.entries_mut().iter_mut().find(|entry| entry.count() == 0) {
            Some(entry) => *entry = copies,
            None => *self = Self::Many(self.entries().iter().copied().chain([copies]).collect()),
        }
    }

    fn entries(&self) -> &[Copies] {
        match self {
            Self::Few(few) => few,
            Self::Many(all) => all,
        }
    }

    fn entries_mut(&mut self) -> &mut [Copies] {
        match self {
            Self::Few(few) => few,
            Self::Many(all) => Arc::make_mut(all),
        }
    }
}

impl Default for CopySet {
    fn default() -> Self {
        Self::Few([Copies::default(); 4])
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_block_takes_48_bytes() {
        assert_eq!(size_of::<Option<LiveBlock>>(), 48);
    }

    #[test]
    fn shelves_are_told_apart_and_come_tier_by_tier() {
        let all: Vec<_> = Shelf::all().collect();
        assert!(all.iter().all(|&shelf| Shelf::new(shelf.group(), shelf.tier()) == shelf));
        assert!(all.is_sorted_by_key(|shelf| (shelf.tier(), shelf.group())) && all.len() == Shelf::COUNT);
    }

    #[test]
    fn copies_beyond_the_most_are_said_to_be() {
        let (mut set, shelf) = (CopySet::default(), Shelf::new(GroupId(15), Tier::External));
        assert_eq!(set.add(shelf, CopyRule::Counted), Added::First);
        assert!((1..Copies::MAX).all(|_| set.add(shelf, CopyRule::Counted) == Added::Further));
        assert_eq!((set.add(shelf, CopyRule::Counted), set.on(shelf)), (Added::Full, Copies::MAX));
        assert_eq!((set.remove(shelf), set.on(shelf)), (Some(Copies::MAX - 1), Copies::MAX - 1));
        assert_eq!((set.add(shelf, CopyRule::Reannounced), set.on(shelf)), (Added::Again, Copies::MAX - 1));
    }

    #[test]
    fn places_depend_on_the_whole_path() {
        let path = |contents: &[u64]| contents.iter().fold(Place::START, |place, &next| place.below(ContentHash(next)));
        let paths = [path(&[1]), path(&[2]), path(&[1, 2]), path(&[2, 1]), path(&[1, 1]), path(&[0]), path(&[0, 0])];
        let different: std::collections::HashSet<_> = paths.iter().collect();
        assert_eq!(different.len(), paths.len());
    }

    proptest! {
        #[test]
        fn a_set_equals_a_map_of_counts(steps in proptest::collection::vec((any::<bool>(), 0u8..16, 0usize..4), 0..200)) {
            let (mut set, mut map) = (CopySet::default(), std::collections::BTreeMap::new());
            for (add, group, tier) in steps {
                let shelf = Shelf::new(GroupId(group % 3), Tier::ALL[tier]);
                let count: &mut u16 = map.entry(shelf.index()).or_default();
                if add {
                    set.add(shelf, CopyRule::Counted);
                    *count += 1;
                } else {
                    prop_assert_eq!(set.remove(shelf), count.checked_sub(1));
                    *count = count.saturating_sub(1);
                }
                prop_assert_eq!(set.is_empty(), map.values().all(|count| *count == 0));
                prop_assert!(Shelf::all().all(|shelf| set.on(shelf) == map.get(&shelf.index()).copied().unwrap_or(0)));
            }
        }
    }
}
