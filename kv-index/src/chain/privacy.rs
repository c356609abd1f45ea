//! Going private: from the shared table's names to a table of the worker's own.

use super::state::Writer;
use crate::raw::place::Place;
use crate::raw::record::Meta;
use crate::raw::segments::{Locked, SegmentId};
use crate::sync::atomic::Ordering;

impl Writer<'_> {
    /// Takes all names of an agreeing worker into its own table, and takes back the claims that nobody else stands for. Nothing
    /// that a reader sees changes.
    #[cold]
    pub(crate) fn go_private(&mut self) {
        self.state.naming.own.spread();
        let list = self.state.roll.segments();
        for &id in &list {
            if let Some(segment) = self.core.segments.lock(id) {
                self.own_defaults(&segment);
            }
        }
        self.state.naming.go_private();
        self.core.private.insert(self.state.id);
        for id in list {
            self.give_up_claims(id);
        }
    }

    /// Enters the claimed names that the worker holds in a segment.
    fn own_defaults(&mut self, segment: &Locked<'_>) {
        let record = segment.record();
        let names = record.names(record.meta(), record.meta().len);
        for at in super::release::bits(record.claimed()) {
            let place = Place::new(segment.id, at);
            let covering = self.covering_locked(segment, place);
            if covering != 0 && self.state.naming.at(place, covering).0 != 0 {
                let own = &mut self.state.naming.own;
                own.set(own.key(names[at].load(Ordering::Relaxed)), place);
            }
        }
    }

    fn give_up_claims(&mut self, id: SegmentId) {
        let Some(mut segment) = self.core.segments.lock(id) else { return };
        let claims = segment.record().claimed();
        let stood_for = segment.held_of(claims, |slot| !self.core.private.contains(slot));
        self.core.release_claims(&segment, claims & !stood_for);
        let meta = segment.record().meta();
        if meta.named && segment.record().claimed() == 0 {
            segment.reshape(Meta { named: false, capacity: meta.len, ..meta }.roomy());
        }
    }
}
