//! What must hold of every reader.

use std::time::Duration;

use kv_events::Trust;
use kv_index::Index;

use super::Relayed;
use super::reader::Reader;
use crate::listener::{Failure, Site};

impl<I: Index> Relayed<I> {
    pub(super) fn check_each(
        &self,
        now: Duration,
        sites: &[Site],
        check: impl Fn(&Self, Duration, &Reader<I>, &Site) -> Result<(), &'static str>,
    ) -> Result<(), Failure> {
        self.readers.iter().enumerate().try_for_each(|(at, reader)| {
            check(self, now, reader, &sites[at % self.ranks]).map_err(|why| self.failure(now, at, sites, why))
        })
    }

    pub(super) fn failure(&self, now: Duration, at: usize, sites: &[Site], why: &str) -> Failure {
        let (reader, rank) = (&self.readers[at], at % self.ranks);
        let (held, engine) = (reader.gateway.digest(&self.index), sites[rank].engine().digest());
        let (trust, last, counts) = (reader.gateway.trust, reader.gateway.last, reader.gateway.counts());
        let relay = self.sidecar.relay.status(reader.rank);
        format!(
            "at {now:?} gateway {} rank {rank}: {why}; {trust:?}, last {last:?}; index {held:?}, engine {engine:?}; {counts:?}; relay {relay:?}",
            at / self.ranks,
        )
    }

    /// After a long silence.
    pub(super) fn quiet(&self, now: Duration, reader: &Reader<I>, site: &Site) -> Result<(), &'static str> {
        let gateway = &reader.gateway;
        if !site.is_silent(now) || gateway.ahead > Duration::ZERO {
            return Ok(());
        }
        let relay = self.sidecar.relay.status(reader.rank).expect("a rank");
        if site.keeps_all && relay.counts.lost > 0 {
            return Err("the relay lost what the publisher has kept");
        }
        // A relay that has started again may know nothing yet.
        let is_last = || relay.last.is_none_or(|last| gateway.position().is_some_and(|position| position.sequence == last));
        match gateway.trust {
            Trust::Exact if gateway.digest(&self.index) != site.engine().digest() => {
                Err("wrong after a silence, and called exact")
            }
            Trust::Exact | Trust::ExactAsOf { .. } if reader.has_all() && !is_last() => {
                Err("exact as of another batch than the relay's last")
            }
            Trust::Exact | Trust::ExactAsOf { .. }
                if reader.has_all()
                    && relay.last.is_some()
                    && relay.connected
                    && !relay.asking
                    && !gateway.is_of_this_life(site.engine()) =>
            {
                Err("its relay is connected to another life, and it is called exact")
            }
            _ => Ok(()),
        }
    }

    /// The faults are over for long.
    pub(super) fn end(&self, now: Duration, reader: &Reader<I>, site: &Site) -> Result<(), &'static str> {
        let gateway = &reader.gateway;
        gateway.check(&self.index, site.engine())?;
        if !reader.follows(now) {
            return Err("it does not follow");
        }
        let replays = self.options.replays;
        let is_right = gateway.digest(&self.index) == site.engine().digest();
        let relay = self.sidecar.relay.status(reader.rank).expect("a rank");
        match gateway.trust {
            Trust::Exact if is_right && replays => Ok(()),
            Trust::Exact => Err("wrong at the end, and called exact"),
            // A publisher that has published nothing cannot be told from one that keeps nothing. And a relay that was told nothing, and gets
            // no answer either, says nothing: what its reader had stays as good as it was.
            _ if !site.engine().has_published() || relay.last.is_none() && !(replays && site.engine().keeps_some()) => Ok(()),
            Trust::Degraded(degraded) if degraded.repairable => Err("not repaired, and said to be repairable"),
            Trust::ExactAsOf { .. } if !gateway.is_of_this_life(site.engine()) => {
                Err("of another life at the end, and called exact")
            }
            // Its replay socket answers nothing that helps.
            _ if replays && !site.engine().keeps_some() => Ok(()),
            _ if replays && site.engine().keeps_all() => Err("the publisher keeps all, and it is not exact"),
            Trust::Degraded(_) if site.touched || replays => Ok(()),
            Trust::ExactAsOf { .. } if !replays && (is_right || site.touched) => Ok(()),
            _ => Err("not as good as it could be"),
        }
    }
}
