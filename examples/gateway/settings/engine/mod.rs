//! How to reach one engine, from `--engine` or the configuration file.

mod error;
mod load;

use std::collections::BTreeSet;
use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

use kv_events::Hashing;
use kv_events::adapter::grpc::RelayAddress;
use kv_events::adapter::zmq::Endpoint;
use kv_routing::adapter::grpc::EngineAddress;
use kv_routing::overload::Overrides;
use reqwest::Url;
use serde::Deserialize;

pub use self::error::EngineSpecError;
pub use self::load::LoadSource;
use super::Limit;
use crate::gateway::limits::RANKS_MAX;

/// One engine: where it serves, and where it tells what its cache holds.
#[derive(Clone, Debug, PartialEq)]
pub struct EngineSpec {
    /// What the engine is called in headers, metrics and the table: visible ASCII, unique.
    pub name: String,
    /// `http://HOST:PORT`, perhaps with a path; without a slash at the end.
    pub url: String,
    /// Where its events come from. Without it the engine is routed to by load.
    pub events: Option<EventSource>,
    /// Where rank 0 answers replay requests. Without it, what was missed stays missed.
    pub replay: Option<Endpoint>,
    /// The publisher connects to `events` instead of listening there, as vLLM's and SGLang's do when their own endpoint
    /// names a concrete host: the gateway listens.
    pub bind: bool,
    /// The start of the topics that are subscribed to; all when empty.
    pub topic: String,
    /// Data-parallel ranks; rank n publishes at the ports plus n.
    pub ranks: u32,
    /// The engine announces again what it has (vLLM asked for `kv_cache_report_mode=full`).
    pub set_copies: bool,
    /// The engine leaves out the last block that matched (EAGLE without hashes that look ahead).
    pub drops_last_block: bool,
    /// Tokens of a block, where the stream does not tell.
    pub block_size: Option<NonZeroU32>,
    /// How the engine hashes its blocks, to be checked as they are announced.
    pub hash_check: Option<Hashing>,
    /// Where its gRPC servicer listens, beside its HTTP server: asked for health, and for loads as `load` says.
    pub grpc: Option<EngineAddress>,
    /// Where the engine is asked for its load.
    pub load: LoadSource,
    /// Its own thresholds of overload.
    pub overload: Overrides,
}

/// Who tells what an engine's cache holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EventSource {
    /// The engine itself, over ZeroMQ: this is where rank 0 publishes.
    Engine(Endpoint),
    /// A relay that runs beside it, over gRPC: it tells of every rank.
    Relay(RelayAddress),
}

/// An engine as the file writes it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct EngineFields {
    url: String,
    name: Option<String>,
    events: Option<String>,
    replay: Option<String>,
    #[serde(default)]
    bind: bool,
    #[serde(default)]
    topic: String,
    ranks: Option<u32>,
    #[serde(default)]
    set_copies: bool,
    #[serde(default)]
    drops_last_block: bool,
    block_size: Option<NonZeroU32>,
    hash_check: Option<String>,
    grpc: Option<String>,
    load: Option<LoadSource>,
    overload_waiting: Option<Limit>,
    overload_kv: Option<Limit>,
}

impl EngineSpec {
    /// The engine at `url` with one rank and nothing known of its events.
    ///
    /// # Errors
    /// [`EngineSpecError::Url`].
    pub fn at(url: &str) -> Result<Self, EngineSpecError> {
        EngineFields { url: url.to_owned(), ..EngineFields::default() }.try_into()
    }

    /// The events endpoint of `rank`. A wildcard is the engine's own host, unless the gateway is the one that listens.
    pub(crate) fn events_of(&self, rank: u32) -> Option<Endpoint> {
        let Some(EventSource::Engine(base)) = &self.events else { return None };
        if self.bind { base.for_rank(rank).ok() } else { self.of_rank(base, rank) }
    }

    /// The relay that tells of the engine.
    pub(crate) fn relay(&self) -> Option<&RelayAddress> {
        match &self.events {
            Some(EventSource::Relay(address)) => Some(address),
            _ => None,
        }
    }

    /// The replay endpoint of `rank`, likewise.
    pub(crate) fn replay_of(&self, rank: u32) -> Option<Endpoint> {
        self.replay.as_ref().and_then(|base| self.of_rank(base, rank))
    }

    fn of_rank(&self, base: &Endpoint, rank: u32) -> Option<Endpoint> {
        let host = Url::parse(&self.url).ok()?.host_str()?.to_owned();
        base.on_host(&host).for_rank(rank).ok()
    }
}

impl fmt::Display for EngineSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, url, ranks, .. } = self;
        write!(f, "Engine {name} at {url}, ")?;
        match (&self.events, &self.replay) {
            (None, _) => write!(f, "without events: routed to by load alone"),
            (Some(EventSource::Relay(relay)), _) => write!(f, "events from the relay at {relay}"),
            (Some(EventSource::Engine(events)), None) => {
                write!(f, "events {events}, without replay: what is missed stays missed")
            }
            (Some(EventSource::Engine(events)), Some(replay)) => write!(f, "events {events}, replay {replay}"),
        }?;
        match (ranks, &self.events) {
            (1, _) => Ok(()),
            (_, Some(EventSource::Relay(_))) => write!(f, ", {ranks} ranks"),
            _ => write!(f, ", {ranks} ranks on ports that count up"),
        }?;
        self.grpc.iter().try_for_each(|grpc| write!(f, ", servicer at {grpc}"))
    }
}

impl FromStr for EngineSpec {
    type Err = EngineSpecError;

    /// Reads `URL[,KEY=VALUE]...`.
    fn from_str(text: &str) -> Result<Self, EngineSpecError> {
        let mut parts = text.split(',').map(str::trim);
        let mut fields = EngineFields { url: parts.next().unwrap_or_default().to_owned(), ..EngineFields::default() };
        let mut seen = BTreeSet::new();
        for part in parts {
            let (key, value) = part.split_once('=').map_or((part, None), |(key, value)| (key, Some(value)));
            if !seen.insert(key) {
                return Err(EngineSpecError::Twice { key: key.to_owned() });
            }
            fields.set(key, value).ok_or_else(|| EngineSpecError::Key { got: part.to_owned() })??;
        }
        fields.try_into()
    }
}

impl EngineFields {
    /// Sets what `key=value`, or `key` alone, says; nothing if there is no such key, or not in this form.
    fn set(&mut self, key: &str, value: Option<&str>) -> Option<Result<(), EngineSpecError>> {
        match (key, value) {
            ("events", Some(value)) => self.events = Some(value.to_owned()),
            ("replay", Some(value)) => self.replay = Some(value.to_owned()),
            ("name", Some(value)) => self.name = Some(value.to_owned()),
            ("hash-check", Some(value)) => self.hash_check = Some(value.to_owned()),
            ("grpc", Some(value)) => self.grpc = Some(value.to_owned()),
            ("topic", Some(value)) => value.clone_into(&mut self.topic),
            ("bind", None) => self.bind = true,
            ("set-copies", None) => self.set_copies = true,
            ("drops-last-block", None) => self.drops_last_block = true,
            ("ranks", Some(value)) => match value.parse() {
                Ok(ranks) => self.ranks = Some(ranks),
                Err(_) => return Some(Err(EngineSpecError::Ranks { got: value.to_owned() })),
            },
            ("block-size", Some(value)) => match value.parse() {
                Ok(size) => self.block_size = Some(size),
                Err(_) => return Some(Err(EngineSpecError::BlockSize { got: value.to_owned() })),
            },
            ("load", Some(value)) => return Some(value.parse().map(|load| self.load = Some(load))),
            ("overload-waiting", Some(value)) => {
                return Some(threshold("overload-waiting", value).map(|limit| self.overload_waiting = Some(limit)));
            }
            ("overload-kv", Some(value)) => {
                return Some(threshold("overload-kv", value).map(|limit| self.overload_kv = Some(limit)));
            }
            _ => return None,
        }
        Some(Ok(()))
    }
}

impl TryFrom<EngineFields> for EngineSpec {
    type Error = EngineSpecError;

    fn try_from(fields: EngineFields) -> Result<Self, EngineSpecError> {
        let url = checked_url(&fields.url)?;
        let ranks = fields.ranks.unwrap_or(1);
        if !(1..=RANKS_MAX).contains(&ranks) {
            return Err(EngineSpecError::Ranks { got: ranks.to_string() });
        }
        if fields.events.is_none() && fields.replay.is_some() {
            return Err(EngineSpecError::ReplayAlone);
        }
        let name = fields.name.unwrap_or_else(|| authority(&url));
        if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(EngineSpecError::Name { got: name });
        }
        let events = fields.events.as_deref().map(|text| checked_source(text, ranks)).transpose()?;
        if let Some(EventSource::Relay(_)) = events {
            let beside = [("replay", fields.replay.is_some()), ("bind", fields.bind), ("topic", !fields.topic.is_empty())];
            if let Some((key, _)) = beside.into_iter().find(|beside| beside.1) {
                return Err(EngineSpecError::BesideRelay { key });
            }
        }
        let grpc: Option<EngineAddress> = fields.grpc.as_deref().map(str::parse).transpose()?;
        let load = fields.load.unwrap_or_default();
        if load.is_servicer() && grpc.is_none() {
            return Err(EngineSpecError::NoServicer { load: load.as_str() });
        }
        let endpoint = |key, text: Option<String>| text.map(|text| checked_endpoint(key, &text, ranks)).transpose();
        Ok(Self {
            name,
            url: url.as_str().trim_end_matches('/').to_owned(),
            events,
            replay: endpoint("replay", fields.replay)?,
            bind: fields.bind,
            topic: fields.topic,
            ranks,
            set_copies: fields.set_copies,
            drops_last_block: fields.drops_last_block,
            block_size: fields.block_size,
            hash_check: fields.hash_check.as_deref().map(str::parse).transpose()?,
            grpc,
            load,
            overload: Overrides {
                waiting_requests: fields.overload_waiting.map(|Limit(threshold)| threshold),
                kv_usage: fields.overload_kv.map(|Limit(threshold)| threshold),
            },
        })
    }
}

fn threshold(key: &'static str, text: &str) -> Result<Limit, EngineSpecError> {
    text.parse().map_err(|source| EngineSpecError::Threshold { key, source })
}

fn checked_url(text: &str) -> Result<Url, EngineSpecError> {
    let bad = |reason: &str| EngineSpecError::Url { got: text.to_owned(), reason: reason.to_owned() };
    let url = Url::parse(text).map_err(|error| bad(&error.to_string()))?;
    match url.scheme() {
        "http" if url.query().is_some() || url.fragment().is_some() => Err(bad("it must end with its path")),
        "http" => Ok(url),
        "https" => Err(bad("the gateway speaks no TLS to engines")),
        _ => Err(bad("its scheme is not http")),
    }
}

/// A relay's address, or where an engine publishes.
fn checked_source(text: &str, ranks: u32) -> Result<EventSource, EngineSpecError> {
    if text.starts_with("grpc://") {
        return Ok(EventSource::Relay(text.parse()?));
    }
    Ok(EventSource::Engine(checked_endpoint("events", text, ranks)?))
}

/// An endpoint whose ports hold out for every rank.
fn checked_endpoint(key: &'static str, text: &str, ranks: u32) -> Result<Endpoint, EngineSpecError> {
    let endpoint: Endpoint = text.parse().map_err(|source| EngineSpecError::Endpoint { key, source })?;
    let last = endpoint.for_rank(ranks - 1).map_err(|source| EngineSpecError::Endpoint { key, source })?;
    if ranks > 1 && last == endpoint {
        return Err(EngineSpecError::OneSocket { key, endpoint: text.to_owned(), ranks });
    }
    Ok(endpoint)
}

/// `HOST:PORT`, or the host alone for port 80.
fn authority(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
}

/// The keys of `--engine`, for whoever mistypes one.
const KEYS: &str = "events=ENDPOINT, replay=ENDPOINT, ranks=N, name=NAME, topic=PREFIX, block-size=TOKENS, hash-check=WAY[:SEED], bind, set-copies, \
     drops-last-block, grpc=grpc://HOST:PORT, load=WHERE, overload-waiting=COUNT, overload-kv=SHARE";

#[cfg(test)]
mod tests {
    use kv_routing::Threshold;

    use super::*;

    fn spec(text: &str) -> EngineSpec {
        text.parse().unwrap()
    }

    #[test]
    fn an_engine_has_its_own_thresholds_and_place_for_loads() {
        let own = spec("http://h:1,load=sglang,overload-waiting=off,overload-kv=0.5");
        let overload = Overrides { waiting_requests: Some(Threshold::Off), kv_usage: Some(Threshold::Above(0.5)) };
        assert_eq!((own.load, own.overload), (LoadSource::Sglang, overload));
        let written = "url = \"http://h:1\"\nload = \"sglang\"\noverload-waiting = \"off\"\noverload-kv = 0.5\n";
        assert_eq!(EngineSpec::try_from(toml::from_str::<EngineFields>(written).unwrap()).unwrap(), own);
        assert_eq!((spec("http://h:1").load, spec("http://h:1").overload), (LoadSource::Auto, Overrides::default()));
    }

    #[test]
    fn a_servicer_is_a_port_of_its_own() {
        let servicer = |text| spec(text).grpc.map(|grpc| grpc.to_string());
        assert_eq!(servicer("http://h:1"), None);
        let own = spec("http://h:1,grpc=grpc://h:50051,load=grpc-sglang");
        assert_eq!((own.grpc.as_ref().unwrap().to_string().as_str(), own.load), ("grpc://h:50051", LoadSource::GrpcSglang));
        assert!(own.to_string().ends_with(", servicer at grpc://h:50051"), "{own}");
        let written = "url = \"http://h:1\"\ngrpc = \"grpc://h:50051\"\nload = \"grpc-sglang\"\n";
        assert_eq!(EngineSpec::try_from(toml::from_str::<EngineFields>(written).unwrap()).unwrap(), own);
        for load in ["auto", "metrics", "sglang", "grpc-vllm", "off"] {
            assert_eq!(spec(&format!("http://h:1,grpc=grpc://h:2,load={load}")).load.as_str(), load);
        }
    }

    fn refusal(text: &str) -> String {
        text.parse::<EngineSpec>().unwrap_err().to_string()
    }

    #[test]
    fn a_url_alone_is_an_engine() {
        let engine = spec("http://10.0.0.7:8000/");
        assert_eq!((engine.name.as_str(), engine.url.as_str(), engine.ranks), ("10.0.0.7:8000", "http://10.0.0.7:8000", 1));
        assert_eq!(engine.events_of(0), None);
    }

    #[test]
    fn every_key_is_read() {
        let engine = spec(
            "http://h:1/v,events=tcp://*:5557,replay=tcp://*:5657,ranks=2,name=a,topic=kv@,block-size=32,set-copies,drops-last-block,\
             hash-check=vllm-sha256-cbor:0",
        );
        assert_eq!((engine.name.as_str(), engine.url.as_str(), engine.topic.as_str()), ("a", "http://h:1/v", "kv@"));
        assert_eq!((engine.ranks, engine.set_copies, engine.drops_last_block), (2, true, true));
        assert_eq!(engine.block_size, NonZeroU32::new(32));
        assert_eq!(engine.hash_check, "vllm-sha256-cbor:0".parse().ok());
    }

    #[test]
    fn ranks_count_the_ports_up_on_the_engine_s_host() {
        let engine = spec("http://10.0.0.7:8000,events=tcp://*:5557,replay=tcp://10.9.9.9:5657,ranks=2");
        assert_eq!(engine.events_of(1).unwrap().to_string(), "tcp://10.0.0.7:5558");
        assert_eq!(engine.replay_of(1).unwrap().to_string(), "tcp://10.9.9.9:5658");
        let bound = spec("http://10.0.0.7:8000,events=tcp://*:5557,bind,ranks=2");
        assert_eq!(bound.events_of(1).unwrap().to_string(), "tcp://*:5558");
    }

    #[test]
    fn a_relay_tells_of_every_rank() {
        let engine = spec("http://10.0.0.7:8000,events=grpc://10.0.0.7:5600,ranks=2");
        assert_eq!(engine.relay().unwrap().to_string(), "grpc://10.0.0.7:5600");
        assert_eq!((engine.events_of(0), engine.replay_of(0)), (None, None));
        assert!(engine.to_string().ends_with("events from the relay at grpc://10.0.0.7:5600, 2 ranks"), "{engine}");
        assert_eq!(spec("http://h:1,events=tcp://h:2").relay(), None);
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, reason) in [
            ("", "expected the engine's URL"),
            ("10.0.0.7:8000", "expected the engine's URL"),
            ("https://h:1", "no TLS"),
            ("ftp://h:1", "not http"),
            ("http://h:1?x=1", "end with its path"),
            ("http://h:1,ranks=0", "expected ranks from 1 to 1024, got 0"),
            ("http://h:1,ranks=two", "got two"),
            ("http://h:1,block-size=0", "at least 1 token, got 0"),
            ("http://h:1,hash-check=md5", "hash-check: expected sglang, or vllm-sha256"),
            ("http://h:1,events=5557", "events: expected tcp://HOST:PORT"),
            ("http://h:1,events=tcp://*:65535,ranks=2", "65535"),
            ("http://h:1,events=ipc:///tmp/kv,ranks=2", "serves one rank, and the engine has 2"),
            ("http://h:1,events=grpc://h", "events: expected grpc://HOST:PORT"),
            ("http://h:1,events=grpc://h:5,replay=tcp://h:6", "replay says how to listen to an engine"),
            ("http://h:1,events=grpc://h:5,bind", "bind says how to listen to an engine"),
            ("http://h:1,name=my engine", "visible ASCII"),
            ("http://h:1,name=", "visible ASCII"),
            ("http://h:1,replay=tcp://*:1", "beside replay"),
            ("http://h:1,event=tcp://*:1", "expected one of events=ENDPOINT"),
            ("http://h:1,set-copies=yes", "expected one of events=ENDPOINT"),
            ("http://h:1,name=a,name=b", "name is given twice"),
            ("http://h:1,load=push", "expected load=auto, metrics, sglang, grpc-vllm, grpc-sglang or off, got \"push\""),
            ("http://h:1,grpc=h:50051", "grpc: expected grpc://HOST:PORT, got \"h:50051\""),
            ("http://h:1,load=grpc-vllm", "load=grpc-vllm asks the engine's gRPC servicer: expected grpc=grpc://HOST:PORT"),
            ("http://h:1,events=grpc://h:2,load=grpc-sglang", "load=grpc-sglang asks the engine's gRPC servicer"),
            ("http://h:1,overload-kv=-1", "overload-kv: expected a number from 0 on, or off, got \"-1\""),
        ] {
            assert!(refusal(text).contains(reason), "{text}: {}", refusal(text));
        }
    }
}
