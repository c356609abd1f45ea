//! What an engine lists at `/v1/models`.

use serde::Deserialize;
use serde_json::Map;
use serde_json::Value;

/// A model, or a LoRA adapter of one, that an engine serves under a name.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ModelCard {
    pub(crate) id: String,
    /// The base model, where this is an adapter.
    pub(crate) parent: Option<String>,
    /// All that the engine says of it.
    pub(crate) card: Value,
}

#[derive(Deserialize)]
struct Listing {
    data: Vec<Map<String, Value>>,
}

/// Reads an engine's list. What has no id is left out.
pub(super) fn read(json: &[u8]) -> serde_json::Result<Vec<ModelCard>> {
    let listing: Listing = serde_json::from_slice(json)?;
    let text = |card: &Map<String, Value>, key| card.get(key).and_then(Value::as_str).map(str::to_owned);
    let model = |card| Some(ModelCard { id: text(&card, "id")?, parent: text(&card, "parent"), card: card.into() });
    Ok(listing.data.into_iter().filter_map(model).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adapters_name_their_base() {
        let list = br#"{"object":"list","data":[
            {"id":"tiny","object":"model","root":"/m/tiny","parent":null,"max_model_len":512},
            {"id":"ad1","object":"model","root":"lora-ad1","parent":"tiny"},
            {"object":"model"}]}"#;
        let models = read(list).unwrap();
        let names: Vec<_> = models.iter().map(|model| (model.id.as_str(), model.parent.as_deref())).collect();
        assert_eq!(names, [("tiny", None), ("ad1", Some("tiny"))]);
        assert_eq!(models[0].card["max_model_len"], 512);
    }

    #[test]
    fn what_is_no_list_is_an_error() {
        assert!(read(b"{}").is_err());
        assert!(read(b"<html>").is_err());
    }
}
