//! The payloads: captures of real engines and of releases' own publishers, and steps of a busy engine.

use std::fs;
use std::path::{Path, PathBuf};

use contest::workload::steps::{Form, Steps};
use kv_events::wire::decode_batch;
use kv_events::{Event, Tokens};
use serde_json::Value;

/// Payloads that are raced together.
pub struct Set {
    pub name: String,
    pub payloads: Vec<Vec<u8>>,
}

/// What a decoder read, of each event: its kind, the blocks' names, and the tokens.
pub type Summary = Vec<(&'static str, Vec<u64>, Vec<u32>)>;

/// Whole captures by engine, and steps of 100 blocks in both forms.
pub fn sets() -> Vec<Set> {
    let engine = |name: &str| match name {
        _ if name.starts_with("vllm-cpu-real") => "vLLM, real",
        _ if name.starts_with("sglang-cpu-real") => "SGLang, real",
        _ if name.starts_with("vllm") => "vLLM, its publisher",
        _ if name.starts_with("sglang") => "SGLang, its publisher and trees",
        _ => "others",
    };
    let mut sets: Vec<Set> = Vec::new();
    for (name, payloads) in captures() {
        let name = engine(&name);
        match sets.iter_mut().find(|set| set.name == name) {
            Some(set) => set.payloads.extend(payloads),
            None => sets.push(Set { name: name.to_owned(), payloads }),
        }
    }
    for (name, form) in [("a step of 100 blocks, arrays", Form::Arrays), ("a step of 100 blocks, maps", Form::Maps)] {
        let mut steps = Steps::new(form, 100);
        sets.push(Set { name: name.to_owned(), payloads: (0..16).map(|_| steps.store()).collect() });
        let name = name.replace("blocks", "evictions");
        sets.push(Set { name, payloads: (0..16).map(|step| steps.evict(100 * step)).collect() });
    }
    sets
}

/// What our decoder reads of `payload`, if it reads all of it.
pub fn summary(payload: &[u8]) -> Option<Summary> {
    let batch = decode_batch(payload);
    let summary = batch.events.iter().map(|event| match event {
        Event::Stored(stored) => {
            let names = stored.hashes.iter().map(|hash| hash.name().0).collect();
            ("stored", names, tokens(&stored.tokens))
        }
        Event::Removed(removed) => ("removed", removed.hashes.iter().map(|hash| hash.name().0).collect(), Vec::new()),
        Event::Cleared(_) => ("cleared", Vec::new(), Vec::new()),
    });
    (batch.losses.total() == 0).then(|| summary.collect())
}

fn tokens(tokens: &Tokens) -> Vec<u32> {
    match tokens {
        Tokens::Ids(ids) => ids.clone(),
        Tokens::Bigrams(pairs) => pairs.concat(),
    }
}

/// The live payloads of each capture: of the whole collection where it is there, else of the copies in the repository.
fn captures() -> Vec<(String, Vec<Vec<u8>>)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let shared = root.ancestors().map(|above| above.join("shared/data/captures")).find(|folder| folder.is_dir());
    let folder = shared.unwrap_or_else(|| root.join("../kv-events/tests/data/captures"));
    let mut files: Vec<PathBuf> = fs::read_dir(&folder)
        .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "bin"))
        .collect();
    files.sort();
    files.iter().map(|path| (path.file_stem().expect("a name").to_string_lossy().into_owned(), payloads_of(path))).collect()
}

fn payloads_of(path: &Path) -> Vec<Vec<u8>> {
    let lines = fs::read_to_string(path).expect("a capture");
    let messages = lines.lines().skip(1).map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let live = messages.filter(|message| message["kind"] == "live");
    live.filter_map(|message| from_hex(message["frames"].as_array()?.last()?.as_str()?)).collect()
}

fn from_hex(hex: &str) -> Option<Vec<u8>> {
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(hex.get(at..at + 2)?, 16).ok()).collect()
}
