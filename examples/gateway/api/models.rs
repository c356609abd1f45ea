//! `/v1/models`: everything that some ready engine serves.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use serde_json::Value;

use crate::gateway::app::App;
use crate::gateway::fleet::Fleet;

/// A list in the shape of OpenAI's API.
#[derive(Debug, PartialEq, Serialize)]
pub(super) struct ModelList {
    object: &'static str,
    data: Vec<Value>,
}

pub(super) async fn list(State(app): State<Arc<App>>) -> Json<ModelList> {
    Json(union(&app.fleet))
}

/// One card for each id: the first engine's, as that engine wrote it.
fn union(fleet: &Fleet) -> ModelList {
    let mut cards = BTreeMap::new();
    for engine in fleet.engines().iter().filter(|engine| engine.is_ready()) {
        for model in engine.models().iter() {
            cards.entry(model.id.clone()).or_insert_with(|| model.card.clone());
        }
    }
    ModelList { object: "list", data: cards.into_values().collect() }
}
