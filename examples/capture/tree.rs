//! Recordings of a radix tree without an engine: before each insert, the tokens that the tree matched beside those that the
//! index holds.

use std::collections::HashMap;

use kv_events::namespace::OwnedNamespace;
use kv_events::{Caveat, Event, Tokens};
use kv_index::Namespace;

use super::check::Row;
use super::file::{Message, MessageKind, Recording, TreeNamespace, TreeOp};
use super::replayer::{Replayer, decode};

/// A row for each insert. The tree is keyed by a LoRA's id, the wire shows its name: which belong together is learned
/// from the store that an insert causes.
pub fn rows(recording: &Recording, replayer: &mut Replayer) -> Vec<Row> {
    let mut live = recording.messages.iter().filter(|message| message.kind == MessageKind::Live);
    let port = live.clone().next().map_or(0, |message| message.port);
    let mut known: HashMap<TreeNamespace, OwnedNamespace> = HashMap::new();
    let mut rows = Vec::new();
    for (number, op) in recording.tree.iter().enumerate() {
        if let (Some(matched), false) = (op.matched_before, op.tokens.is_empty()) {
            rows.push(row(replayer, port, number, op, matched, &known));
        }
        if op.batch_published
            && let Some(message) = live.next()
        {
            if let Some(shown) = shown_namespace(message, op) {
                known.entry(op.namespace.clone()).or_insert(shown);
            }
            replayer.apply(message);
        }
    }
    rows
}

fn row(
    replayer: &mut Replayer,
    port: u16,
    number: usize,
    op: &TreeOp,
    reported: u64,
    known: &HashMap<TreeNamespace, OwnedNamespace>,
) -> Row {
    let is_base = op.namespace == TreeNamespace::default();
    let namespace = known.get(&op.namespace).map(OwnedNamespace::as_namespace);
    let predicted = match namespace {
        Some(namespace) => replayer.held_tokens(port, namespace, &op.tokens),
        None if is_base => replayer.held_tokens(port, Namespace::default(), &op.tokens),
        // Nothing was stored in it yet.
        None => 0,
    };
    Row { name: format!("{} {number}", op.op), predicted, reported, label: label(replayer, op), side_by_side: false }
}

fn label(replayer: &Replayer, op: &TreeOp) -> Option<&'static str> {
    let (_, rank) = replayer.ranks().next()?;
    let asked = Namespace { lora: op.namespace.extra_key.as_deref(), salt: op.namespace.cache_salt.as_deref() };
    let caveat = rank.stream.profile().caveat_for(asked).filter(|caveat| *caveat != Caveat::NotRecognised);
    caveat.map(Caveat::as_str)
}

/// The namespace that the wire showed for the insert's own store.
fn shown_namespace(message: &Message, op: &TreeOp) -> Option<OwnedNamespace> {
    let (_, batch) = decode(message)?;
    batch.events.into_iter().find_map(|event| match event {
        Event::Stored(store) if is_part(&store.tokens, &op.tokens) => {
            let own = |text: Option<String>| text.filter(|text| !text.is_empty()).map(Into::into);
            Some(OwnedNamespace { lora: own(store.lora_name), salt: own(store.cache_salt) })
        }
        _ => None,
    })
}

fn is_part(stored: &Tokens, inserted: &[u32]) -> bool {
    let first = match stored {
        Tokens::Ids(ids) => ids.first().copied(),
        Tokens::Bigrams(pairs) => pairs.first().map(|pair| pair[0]),
    };
    first.is_some_and(|first| inserted.contains(&first))
}
