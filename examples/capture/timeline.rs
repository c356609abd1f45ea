//! Which events a request could count on.
//!
//! A recording notes when a message was received and when an answer was complete. An engine publishes around the end of the
//! request that caused the events, so a message may come a little after it, and still belongs before the next request. So the cut
//! between "before" and "after" a request is found by whose tokens a batch holds; where that is open and the batch came close to
//! the request's start, both cuts are possible. For requests that ran side by side every cut between the earliest and the latest
//! start is.

use std::ops::RangeInclusive;

use kv_events::{Event, Tokens};

use super::file::{Message, Request};
use super::replayer::decode;

/// Where each request stands among the live messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// How many messages may have come before it started; one number where the requests ran one after the other.
    pub cuts: RangeInclusive<usize>,
    /// Other requests ran beside it.
    pub side_by_side: bool,
}

/// A recorder waits between requests that it sends one after the other; answers that end closer together than this ran
/// side by side, and a message that comes so shortly after an answer belongs to it.
const TOGETHER_S: f64 = 0.05;

/// Places `requests`, sorted by their ends, among `live` messages in order of receipt.
pub fn place(live: &[Message], requests: &[Request]) -> Vec<Place> {
    let received: Vec<f64> = live.iter().map(|message| message.t_s.unwrap_or(0.0)).collect();
    let stored: Vec<Vec<Vec<u32>>> = live.iter().map(stored_tokens).collect();
    let by = |t: f64| received.partition_point(|&received| received <= t);
    (0..requests.len())
        .map(|at| {
            let start = start_of(requests, at);
            let side_by_side = (0..requests.len()).any(|other| other != at && overlap(requests, at, other));
            let late = late(&received, &stored, requests, at, by(start));
            let highest = if side_by_side { by(requests[at].t).max(*late.end()) } else { *late.end() };
            Place { cuts: *late.start()..=highest, side_by_side }
        })
        .collect()
}

/// When the request was sent: as noted, or at the earliest after the last answer that came well before its own.
fn start_of(requests: &[Request], at: usize) -> f64 {
    requests[at].t_start.unwrap_or_else(|| {
        let mut first = at;
        while first > 0 && requests[first].t - requests[first - 1].t < TOGETHER_S {
            first -= 1;
        }
        if first == 0 { f64::NEG_INFINITY } else { requests[first - 1].t }
    })
}

fn overlap(requests: &[Request], left: usize, right: usize) -> bool {
    match (requests[left].t_start, requests[right].t_start) {
        (Some(left_start), Some(right_start)) => left_start < requests[right].t && right_start < requests[left].t,
        _ => start_of(requests, left) < requests[right].t && start_of(requests, right) < requests[left].t,
    }
}

/// Extends `from` over the messages that came after the request's start and belong to requests before it: those that must, and
/// those that may.
fn late(received: &[f64], stored: &[Vec<Vec<u32>>], requests: &[Request], at: usize, from: usize) -> RangeInclusive<usize> {
    let start = start_of(requests, at);
    let of = |request: &Request, message: usize| stored[message].iter().any(|tokens| contains(request, tokens));
    let before = |message| requests[..at].iter().filter(|request| request.t <= start).any(|request| of(request, message));
    let must = |message: usize| before(message) && !of(&requests[at], message);
    // Tokens of both, or of neither, as a batch of removals has: only the time is left, and it is not exact.
    let may = |message: usize| {
        let own = of(&requests[at], message) && !before(message);
        start.is_finite() && !own && received[message] - start < TOGETHER_S
    };
    let run = |from: usize, goes_on: &dyn Fn(usize) -> bool| {
        (from..received.len()).find(|&message| received[message] > requests[at].t || !goes_on(message)).unwrap_or(received.len())
    };
    let lowest = run(from, &must);
    lowest..=run(lowest, &|message| must(message) || may(message))
}

fn contains(request: &Request, tokens: &[u32]) -> bool {
    let all: Vec<u32> = request.prompt_token_ids.iter().chain(request.output_token_ids.iter().flatten()).copied().collect();
    all.windows(tokens.len().max(1)).any(|window| window == tokens)
}

fn stored_tokens(message: &Message) -> Vec<Vec<u32>> {
    let events = decode(message).map(|(_, batch)| batch.events).unwrap_or_default();
    let tokens = events.into_iter().filter_map(|event| match event {
        Event::Stored(store) => match store.tokens {
            Tokens::Ids(ids) => Some(ids),
            Tokens::Bigrams(pairs) => Some(pairs.iter().map(|pair| pair[0]).collect()),
        },
        _ => None,
    });
    tokens.filter(|tokens: &Vec<u32>| !tokens.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(t_start: Option<f64>, t: f64, prompt: &[u32]) -> Request {
        Request { t_start, t, prompt_token_ids: prompt.to_vec(), ..Request::default() }
    }

    fn message(t_s: f64) -> Message {
        Message { kind: super::super::file::MessageKind::Live, port: 1, t_s: Some(t_s), frames: vec![] }
    }

    #[test]
    fn one_after_the_other_has_one_cut() {
        let live = [message(1.0), message(1.41), message(1.8)];
        let requests = [request(None, 1.01, &[1]), request(None, 1.4, &[2]), request(None, 1.81, &[3])];
        let cuts: Vec<_> = place(&live, &requests).into_iter().map(|place| place.cuts).collect();
        assert_eq!(cuts, [0..=0, 1..=1, 1..=2], "the second message came just after the second answer and may be its own");
    }

    #[test]
    fn side_by_side_may_have_started_in_any_order() {
        let live = [message(1.0), message(1.2), message(1.3), message(1.5)];
        let requests = [request(None, 0.9, &[1]), request(None, 1.40, &[2]), request(None, 1.41, &[3])];
        let places = place(&live, &requests);
        assert_eq!(places[1], Place { cuts: 0..=3, side_by_side: true });
        assert_eq!(places[2], Place { cuts: 0..=3, side_by_side: true });
        assert!(!places[0].side_by_side);
    }

    #[test]
    fn noted_starts_are_believed() {
        let live = [message(1.0), message(2.0)];
        let requests = [request(Some(0.5), 1.1, &[1]), request(Some(1.2), 1.3, &[2]), request(Some(1.5), 2.1, &[3])];
        let cuts: Vec<_> = place(&live, &requests).into_iter().map(|place| place.cuts).collect();
        assert_eq!(cuts, [0..=0, 1..=1, 1..=1]);
    }
}
