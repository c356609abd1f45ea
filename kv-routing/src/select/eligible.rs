//! Who may be chosen, and who is taken when nobody may.

use serde::{Deserialize, Serialize};

use crate::{Candidate, NoCandidate, Router};

/// Everybody was ruled out, and somebody was taken all the same: a veto steers, it does not refuse.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fallback {
    /// One of those that are overloaded, for nobody is not: as the policy chooses among any. Where all have too much, what a prefix saves
    /// counts most.
    Overloaded,
    /// The least loaded of those that are vetoed, for nobody else is ready.
    Vetoed,
}

/// Whom [`eligible`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Those whom nothing speaks against.
    Eligible,
    /// Those of the last resort.
    Only(Fallback),
}

/// Of whom the fleet's means are made: of those whom nothing speaks against or, if there is nobody, of those that are overloaded.
pub(crate) fn counted(candidates: &[Candidate]) -> impl Fn(&Candidate) -> bool + Copy {
    let some = candidates.iter().any(Candidate::is_eligible);
    move |candidate| if some { candidate.is_eligible() } else { candidate.ready && !candidate.vetoed }
}

/// Writes the places of those who may be chosen into `out`.
pub(crate) fn eligible(router: &Router, candidates: &[Candidate], out: &mut Vec<usize>) -> Result<Standing, NoCandidate> {
    let mut those = |which: &dyn Fn(&Candidate) -> bool| {
        out.clear();
        out.extend(candidates.iter().enumerate().filter(|(_, candidate)| which(candidate)).map(|(place, _)| place));
        !out.is_empty()
    };
    let count = candidates.len();
    if those(&|candidate| candidate.is_eligible() && !is_full(router, candidate)) {
        return Ok(Standing::Eligible);
    }
    if candidates.iter().any(Candidate::is_eligible) {
        return Err(NoCandidate::QueuesFull { candidates: count });
    }
    let shed = router.shed_overloaded;
    if those(&|candidate| candidate.ready && !candidate.vetoed) {
        // Who has too much is still better off than who does not move: if he takes no more, nobody does.
        return if shed { Err(NoCandidate::Shed { candidates: count }) } else { Ok(Standing::Only(Fallback::Overloaded)) };
    }
    if those(&|candidate| candidate.ready && !(shed && candidate.overloaded)) {
        return Ok(Standing::Only(Fallback::Vetoed));
    }
    Err(match count {
        0 => NoCandidate::EmptyPool,
        _ if candidates.iter().any(|candidate| candidate.ready) => NoCandidate::Shed { candidates: count },
        _ => NoCandidate::NoneReady { candidates: count },
    })
}

/// Whether the worker's queue is as long as it may be. The limit itself is full.
fn is_full(router: &Router, candidate: &Candidate) -> bool {
    let limit = candidate.overrides.max_waiting.unwrap_or(router.max_waiting);
    limit.is_crossed_by(f64::from(candidate.load.waiting) + 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Load, Overrides, Threshold};

    fn places(router: &Router, candidates: &[Candidate]) -> Result<(Standing, Vec<usize>), NoCandidate> {
        let mut out = Vec::new();
        eligible(router, candidates, &mut out).map(|standing| (standing, out))
    }

    fn down() -> Candidate {
        Candidate { ready: false, ..Candidate::default() }
    }

    fn vetoed() -> Candidate {
        Candidate { vetoed: true, ..Candidate::default() }
    }

    fn overloaded() -> Candidate {
        Candidate { overloaded: true, ..Candidate::default() }
    }

    #[test]
    fn a_veto_steers_and_never_refuses() {
        let router = Router::default();
        let free = Candidate::default();
        let of = |candidates: &[Candidate]| places(&router, candidates);
        assert_eq!(of(&[vetoed(), free, overloaded(), down()]), Ok((Standing::Eligible, vec![1])));
        assert_eq!(of(&[vetoed(), down(), overloaded()]), Ok((Standing::Only(Fallback::Overloaded), vec![2])));
        assert_eq!(of(&[vetoed(), down()]), Ok((Standing::Only(Fallback::Vetoed), vec![0])));
        assert_eq!(of(&[down()]), Err(NoCandidate::NoneReady { candidates: 1 }));
        assert_eq!(of(&[]), Err(NoCandidate::EmptyPool));
    }

    #[test]
    fn overload_is_shed_only_where_that_was_asked_for() {
        let router = Router { shed_overloaded: true, ..Router::default() };
        let both = Candidate { vetoed: true, ..overloaded() };
        assert_eq!(places(&router, &[overloaded(), both]), Err(NoCandidate::Shed { candidates: 2 }));
        assert_eq!(places(&router, &[both, vetoed()]), Ok((Standing::Only(Fallback::Vetoed), vec![1])));
        // All traffic of a fleet that is overloaded would go to the one that does not move.
        assert_eq!(places(&router, &[overloaded(), vetoed()]), Err(NoCandidate::Shed { candidates: 2 }));
    }

    #[test]
    fn full_queues_are_skipped_and_all_full_is_an_answer_of_its_own() {
        let router = Router { max_waiting: Threshold::Above(2.0), ..Router::default() };
        let waiting = |waiting| Candidate { load: Load { waiting, ..Load::default() }, ..Candidate::default() };
        assert_eq!(places(&router, &[waiting(2), waiting(1)]), Ok((Standing::Eligible, vec![1])));
        assert_eq!(places(&router, &[waiting(2)]), Err(NoCandidate::QueuesFull { candidates: 1 }));
        let own = Overrides { max_waiting: Some(Threshold::Off), ..Overrides::default() };
        assert_eq!(places(&router, &[Candidate { overrides: own, ..waiting(9) }]), Ok((Standing::Eligible, vec![0])));
        assert_eq!(places(&Router::default(), &[waiting(u32::MAX)]), Ok((Standing::Eligible, vec![0])), "off by default");
    }
}
