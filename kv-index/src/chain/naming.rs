//! Which names a worker holds at a place, when it is not simply the shared one.

use hashbrown::HashMap;

use super::doubts::Doubts;
use super::own::OwnNames;
use crate::raw::place::Place;
use crate::raw::secret::Secret;

/// How one worker's names lead to places.
///
/// A worker begins *agreeing*: a name means what the shared table says, and what differs is kept in `own`. A worker
/// that differs much goes *private*: all its names are in `own`, and the shared table means nothing to it. Either way the name
/// that one would expect at a place that the worker covers (the claimed one, or the only one in `own` that leads
/// there) is its *default*, held by every view that covers the place, and takes no further memory.
#[derive(Debug)]
pub(crate) struct Naming {
    pub(crate) private: bool,
    /// Blocks that the worker stored under the very name that was claimed for their place.
    pub(crate) agreed: u64,
    pub(crate) own: OwnNames,
    /// Of an agreeing worker: what is in `own` or `special`, and perhaps more.
    doubts: Doubts,
    /// Places with names beside the default, or with a name instead of it.
    pub(super) special: HashMap<Place, Special>,
}

/// What is held at a place, view by view (bit `v` is view `v`).
#[derive(Debug, Default)]
pub(super) struct Special {
    default_views: u32,
    /// Other names, all of them in `own`.
    others: Vec<(u64, u32)>,
}

/// When an agreeing worker goes private. An entry of `own` and a special place take more than the shared entry that they stand
/// for, and less than an entry for every name. Blocks that nobody else brought say nothing about who agrees; those that somebody
/// did say much. Whoever disagrees on three of four does not belong to the others. In the long run, neither does whoever disagrees
/// on half; but while a fleet is young, half of what is claimed may be the claims of those that do not belong to it.
const SURELY: Disagreement = if MODELLED { AT_ONCE } else { Disagreement { names: 128, times: 3 } };
const IN_THE_LONG_RUN: Disagreement = if MODELLED { AT_ONCE } else { Disagreement { names: 4_096, times: 1 } };

/// Under a model checker the first name of its own is enough: models are small.
const MODELLED: bool = cfg!(any(kv_loom, kv_shuttle));
const AT_ONCE: Disagreement = Disagreement { names: 0, times: 0 };

/// More than so many names of its own, and more than so many times what was agreed on.
struct Disagreement {
    names: usize,
    times: u64,
}

impl Naming {
    pub(crate) fn new(secret: Secret) -> Self {
        Self { private: false, agreed: 0, own: OwnNames::new(secret), doubts: Doubts::new(secret), special: HashMap::new() }
    }

    /// Whether an agreeing worker may take `name` at `place` for what the shared table says of it: the worker has no say of its
    /// own about either.
    #[inline]
    pub(crate) fn is_plain(&self, place: Place, name: u64) -> bool {
        if self.own.is_empty() {
            return true;
        }
        let is_special = || self.own.find(self.own.key(name)).is_some() || self.special.contains_key(&place);
        !(self.doubts.of_name(name) || self.doubts.of_place(place)) || !is_special()
    }

    /// Whether a worker that holds `held` blocks has too many names of its own.
    pub(crate) fn wants_privacy(&self, held: u64) -> bool {
        let agreed = self.agreed.min(held);
        let own = self.own.len();
        let is = |Disagreement { names, times }| own > names && own as u64 > agreed * times;
        !self.private && (is(SURELY) || is(IN_THE_LONG_RUN))
    }

    /// Bytes in use, with room for one other name in each special place.
    #[inline]
    pub(crate) fn bytes(&self) -> usize {
        let special = self.special.capacity() * (size_of::<(Place, Special)>() + 1);
        self.own.bytes() + self.doubts.bytes() + special + self.special.len() * size_of::<(u64, u32)>()
    }

    /// The views of `covering` that hold `name` at `place`, a place that `name` would lead to.
    #[inline]
    pub(crate) fn views(&self, place: Place, name: u64, covering: u32) -> u32 {
        if self.special.is_empty() {
            return covering;
        }
        match self.special.get(&place) {
            None => covering,
            Some(special) => special.of(name).unwrap_or(special.default_views),
        }
    }

    /// All names beside the default that are held at `place`, and the views that hold the default.
    pub(crate) fn at(&self, place: Place, covering: u32) -> (u32, &[(u64, u32)]) {
        self.special.get(&place).map_or((covering, &[]), |special| (special.default_views, &special.others))
    }

    /// Whether `name` is the default of `place`, or would be if it were held there. `claimed` says that the shared table leads from
    /// the name to the place, `leads_here` that the worker's own names do already. `covering` are the views that cover the place.
    pub(crate) fn is_default(&self, place: Place, name: u64, claimed: bool, covering: u32, leads_here: bool) -> bool {
        let special = self.special.get(&place);
        if special.is_some_and(|special| special.of(name).is_some()) {
            return false;
        }
        let vacant = special.map_or(covering, |special| special.default_views) == 0;
        if self.private { leads_here || vacant } else { claimed }
    }

    /// Lets `view` hold the default of `place`, or `name` beside it. `covering` are the views that covered the place before.
    pub(crate) fn add(&mut self, place: Place, name: u64, is_default: bool, view: u32, covering: u32) {
        if is_default {
            if let Some(special) = self.special.get_mut(&place) {
                special.default_views |= view;
            }
            return;
        }
        if !self.private {
            self.doubt(place, name);
        }
        let special = self.special.entry(place).or_insert_with(|| Special { default_views: covering, others: Vec::new() });
        match special.others.iter_mut().find(|other| other.0 == name) {
            Some(other) => other.1 |= view,
            None => special.others.push((name, view)),
        }
    }

    /// Notes that `name`, which is in `own`, and `place` are special.
    fn doubt(&mut self, place: Place, name: u64) {
        if !self.doubts.add(name, place) {
            let names = self.own.iter().map(|(name, _)| name);
            let places = self.special.keys().copied().chain([place]);
            self.doubts.renew(names, places, self.own.len() + self.special.len() + 1);
        }
    }

    /// Takes `name`, which leads to `place`, from `views` that hold it. `covering` are the views that covered the place
    /// before. Returns the views that cover it no longer, and whether no view holds the name any more.
    pub(crate) fn remove(&mut self, place: Place, name: u64, views: u32, covering: u32) -> (u32, bool) {
        let Some(special) = self.special.get_mut(&place) else { return (views, covering & !views == 0) };
        let left = special.remove(name, views);
        let uncovered = views & !special.covering();
        // A single name that leads here is the default of a private worker, and noted as nothing.
        let plain = special.others.is_empty() || (self.private && special.default_views == 0 && special.others.len() == 1);
        if plain {
            self.special.remove(&place);
            if self.special.is_empty() {
                self.special = HashMap::new();
                self.doubts.forget();
            }
        }
        (uncovered, left == 0)
    }

    /// Goes private: `own` has all names already.
    pub(crate) fn go_private(&mut self) {
        self.private = true;
        self.doubts.forget();
        self.special.retain(|_, special| special.default_views != 0 || special.others.len() > 1);
    }
}

impl Special {
    fn of(&self, name: u64) -> Option<u32> {
        self.others.iter().find(|other| other.0 == name).map(|other| other.1)
    }

    fn covering(&self) -> u32 {
        self.others.iter().fold(self.default_views, |all, other| all | other.1)
    }

    /// Returns the views that hold the name still.
    fn remove(&mut self, name: u64, views: u32) -> u32 {
        let Some(at) = self.others.iter().position(|other| other.0 == name) else {
            self.default_views &= !views;
            return self.default_views;
        };
        self.others[at].1 &= !views;
        match self.others[at].1 {
            0 => {
                self.others.swap_remove(at);
                0
            }
            left => left,
        }
    }
}
