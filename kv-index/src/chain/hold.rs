//! Holding and letting go of one name, whatever stands in the way.

use super::core::Core;
use super::state::{Writer, bits};
use crate::raw::holders::Slot;
use crate::raw::place::Place;
use crate::raw::segments::Locked;
use crate::sync::atomic::Ordering;
use crate::{BlockName, Removed, Stored};

impl Core {
    /// Claims `name` for a place of a locked segment that has no claim, unless it is claimed elsewhere.
    pub(crate) fn claim(&self, segment: &mut Locked<'_>, at: usize, name: u64) -> bool {
        segment.make_named();
        let record = segment.record();
        let names = record.names(record.meta(), at + 1);
        names[at].store(name, Ordering::Relaxed);
        record.set_claimed(record.claimed() | 1 << at);
        let hash = self.names.hash(name);
        let claimed = self.names.claim(&self.segments, hash, name, Place::new(segment.id, at)).is_ok();
        if !claimed {
            record.set_claimed(record.claimed() & !(1 << at));
        }
        claimed
    }

    /// Takes a claim back that nobody stands for any more.
    fn release_idle_claim(&self, segment: &Locked<'_>, at: usize) {
        let claim = segment.record().claimed() & 1 << at;
        let stood_for = segment.held_of(claim, |slot| !self.private.contains(slot));
        self.release_claims(segment, claim & !stood_for);
    }
}

impl Writer<'_> {
    /// Holds `name` in `slot` at a place of a locked segment. What it was and, if the name stood at another place, which
    /// views have to let go of it there.
    pub(crate) fn hold(&mut self, segment: &mut Locked<'_>, at: usize, name: u64, slot: Slot) -> (Stored, Option<(Place, u32)>) {
        let place = Place::new(segment.id, at);
        let view = 1 << slot.view();
        let covering = self.covering_locked(segment, place);
        let old = self.resolve(name);
        let here = old.filter(|&(old, _)| old == place);
        if here.is_some_and(|(_, views)| views & view != 0) {
            return (Stored::AlreadyHeld, None);
        }
        let claimed = if here.is_some() { Self::is_claimed(segment, at, name) } else { self.bring(segment, at, name) };
        let is_default = self.state.naming.is_default(place, name, claimed, covering, here.is_some());
        if here.is_none() {
            let own = &mut self.state.naming.own;
            let key = own.key(name);
            if self.state.naming.private || !is_default {
                own.set(key, place);
            } else {
                own.remove_if(key, |_| true);
            }
        }
        self.state.naming.add(place, name, is_default, view, covering);
        let entry = segment.entry(slot);
        self.put(segment, entry, entry.mask | place.bit());
        self.note(segment, at, name, view, true);
        match old.filter(|&(old, _)| old != place) {
            None => (Stored::New, None),
            moved => (Stored::Moved, moved),
        }
    }

    /// Claims a name that the worker brings to a place, if it is an agreeing worker and nobody stands for another name there.
    fn bring(&self, segment: &mut Locked<'_>, at: usize, name: u64) -> bool {
        if self.state.naming.private {
            return false;
        }
        if Self::is_claimed(segment, at, name) {
            return true;
        }
        self.core.release_idle_claim(segment, at);
        segment.record().claimed() >> at & 1 == 0 && self.core.claim(segment, at, name)
    }

    fn is_claimed(segment: &Locked<'_>, at: usize, name: u64) -> bool {
        let record = segment.record();
        let names = record.names(record.meta(), at + 1);
        record.claimed() >> at & 1 == 1 && names.last().is_some_and(|word| word.load(Ordering::Relaxed) == name)
    }

    /// Lets `views` go of `name` at `place`, where they hold it.
    pub(crate) fn let_go(&mut self, place: Place, name: u64, views: u32) -> bool {
        let mut segment = self.core.segments.lock(place.segment()).expect("a worker's places stay");
        let covering = self.covering_locked(&segment, place);
        let (uncovered, gone) = self.state.naming.remove(place, name, views, covering);
        self.note(&segment, place.offset(), name, views, false);
        for view in bits(uncovered) {
            let slot = Slot::new(self.state.id, view as u8);
            let entry = segment.entry(slot);
            self.put(&mut segment, entry, entry.mask & !place.bit());
        }
        self.core.release(segment, if uncovered == 0 { 0 } else { place.bit() });
        gone
    }

    /// Removes one name from a view.
    pub(crate) fn remove_one(&mut self, view: u32, BlockName(name): BlockName) -> Removed {
        let Some((place, _)) = self.resolve(name).filter(|&(_, views)| views & view != 0) else { return Removed::Unknown };
        if self.let_go(place, name, view) {
            let own = &mut self.state.naming.own;
            own.remove_if(own.key(name), |led| led == place);
        }
        Removed::Removed
    }
}
