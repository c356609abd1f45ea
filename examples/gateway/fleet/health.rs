//! What an engine's gRPC port says of its health, beside what its HTTP server says.

use std::collections::BTreeMap;
use std::sync::Arc;

use kv_routing::adapter::grpc::{Health, HealthClient};
use kv_routing::adapter::tokio::{PollError, PollFailure};
use parking_lot::Mutex;
use tokio::time::sleep;

use super::engine::Engine;
use crate::gateway::limits::{HEALTH_ANEW, HEALTH_UNHEARD_MAX};
use crate::gateway::proxy;

/// What became of the questions for an engine's health at its gRPC port.
#[derive(Debug, Default)]
pub(crate) struct Checks(Mutex<Checked>);

/// Counts, and what was said last.
#[derive(Clone, Debug, Default)]
pub(crate) struct Checked {
    /// By the outcome's word.
    pub(crate) counts: BTreeMap<&'static str, u64>,
    /// The last answer. It counts until another one comes, or nobody has answered for [`HEALTH_UNHEARD_MAX`] times: an engine is not shut
    /// out for ever by a port that is gone.
    says: Option<Health>,
    /// Why there has been no answer since.
    pub(crate) last_error: Option<String>,
    /// How often in a row nobody has answered there. A port without the service is no such fault.
    unheard: u32,
}

/// Asks at the engine's port until the task is aborted.
pub(super) async fn keep_checked(engine: Arc<Engine>, client: HealthClient) {
    loop {
        // The ranks' pulses are not told: whoever serves here vouches for no connection to the port that requests go to.
        client.clone().keep_checked(Vec::new(), |answer| engine.hears_of_health(answer)).await;
        sleep(HEALTH_ANEW).await;
    }
}

impl Checks {
    /// What became of them so far.
    pub(crate) fn get(&self) -> Checked {
        self.0.lock().clone()
    }

    /// Takes an answer, or that there was none. Returns whether the engine says that it does not serve.
    pub(super) fn note(&self, answer: &Result<Health, PollError>) -> bool {
        let mut checked = self.0.lock();
        *checked.counts.entry(outcome(answer)).or_default() += 1;
        checked.last_error = answer.as_ref().err().map(|error| proxy::reason(error));
        (checked.says, checked.unheard) = match answer {
            Ok(health) => (Some(*health), 0),
            // That there is no such service is an answer too.
            Err(error) if error.failure() == PollFailure::Unsupported => (None, 0),
            Err(_) => {
                let unheard = checked.unheard.saturating_add(1);
                (checked.says.filter(|_| unheard < HEALTH_UNHEARD_MAX), unheard)
            }
        };
        checked.says == Some(Health::NotServing)
    }
}

impl Checked {
    /// What was said last, in a word.
    pub(crate) fn says(&self) -> Option<&'static str> {
        self.says.map(word)
    }

    /// Whether nobody answers there.
    pub(crate) fn is_unheard(&self) -> bool {
        self.unheard > 0
    }
}

fn outcome(answer: &Result<Health, PollError>) -> &'static str {
    match answer {
        Ok(health) => word(*health),
        Err(error) => failure_word(error.failure()),
    }
}

const fn word(health: Health) -> &'static str {
    match health {
        Health::Serving => "serving",
        Health::NotServing => "not_serving",
        Health::Unknown => "unknown",
    }
}

/// What a question at a gRPC port failed by, in the words of all polls.
pub(super) const fn failure_word(failure: PollFailure) -> &'static str {
    match failure {
        PollFailure::Transport => "unreachable",
        PollFailure::Late => "timeout",
        PollFailure::Engine => "refused",
        PollFailure::Unsupported => "unsupported",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gateway::fleet::models::ModelCard;

    fn failed(failure: PollFailure) -> Result<Health, PollError> {
        Err(PollError::new(failure, "as told"))
    }

    fn up(engine: &Engine) {
        engine.is_up(vec![ModelCard { id: "m".to_owned(), parent: None, card: serde_json::Value::Null }]);
    }

    #[test]
    fn only_its_own_word_takes_an_engine_out_and_brings_it_back() {
        let engine = Engine::alone();
        let hears = |answer| {
            engine.hears_of_health(&answer);
            engine.absence()
        };
        assert_eq!(hears(Ok(Health::Serving)), Some("down"), "nobody has asked its HTTP server");
        up(&engine);
        assert_eq!(engine.absence(), None);
        let failures = [PollFailure::Transport, PollFailure::Late, PollFailure::Engine];
        failures.into_iter().for_each(|failure| assert_eq!(hears(failed(failure)), None, "{failure:?}"));
        for other in [Ok(Health::Serving), Ok(Health::Unknown), failed(PollFailure::Unsupported)] {
            assert_eq!(hears(Ok(Health::NotServing)), Some("not serving"));
            failures.into_iter().for_each(|failure| assert_eq!(hears(failed(failure)), Some("not serving"), "{failure:?}"));
            up(&engine);
            assert!(!engine.is_ready(), "its HTTP server does not overrule it");
            assert_eq!(engine.last_error().as_deref(), Some("its gRPC health says NOT_SERVING"));
            assert_eq!((hears(other), engine.last_error()), (None, None));
        }
        engine.hears_of_health(&Ok(Health::NotServing));
        engine.is_down("gone".to_owned());
        assert_eq!((engine.absence(), engine.last_error().as_deref()), (Some("down"), Some("gone")));
    }

    #[test]
    fn answers_are_counted_and_the_last_one_is_kept_while_nobody_answers() {
        let checks = Checks::default();
        let state = || (checks.get().says(), checks.get().last_error.is_some(), checks.get().is_unheard());
        let steps = [
            (Ok(Health::NotServing), (Some("not_serving"), false, false)),
            (failed(PollFailure::Transport), (Some("not_serving"), true, true)),
            (failed(PollFailure::Late), (Some("not_serving"), true, true)),
            (Ok(Health::Unknown), (Some("unknown"), false, false)),
            (failed(PollFailure::Unsupported), (None, true, false)),
            (failed(PollFailure::Engine), (None, true, true)),
            (Ok(Health::Serving), (Some("serving"), false, false)),
        ];
        for (answer, expected) in steps {
            checks.note(&answer);
            assert_eq!(state(), expected, "{answer:?}");
        }
        let counted = ["not_serving", "refused", "serving", "timeout", "unknown", "unreachable", "unsupported"];
        assert_eq!(checks.get().counts, counted.into_iter().map(|word| (word, 1)).collect());
    }

    // D34: a mark that nobody takes back would shut the engine out for ever.
    #[test]
    fn a_port_that_is_gone_shuts_its_engine_out_for_a_while_only() {
        let engine = Engine::alone();
        up(&engine);
        engine.hears_of_health(&Ok(Health::NotServing));
        let mut silence = (1..=HEALTH_UNHEARD_MAX).map(|nth| {
            engine.hears_of_health(&failed(PollFailure::Transport));
            (nth, engine.is_ready())
        });
        assert!(silence.all(|(nth, is_ready)| is_ready == (nth == HEALTH_UNHEARD_MAX)));
        assert_eq!((engine.checks.get().says(), engine.checks.get().is_unheard(), engine.last_error()), (None, true, None));
    }
}
