//! What can be run: a part, on a shape where the part has one, with names that agree or not.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use crate::contender::{Chain, Contender, Crtc, OurIndex, Positional, Reference, Smg};
use crate::scenario::{self, Settings, Trial};
use crate::workload::names::Names;
use crate::workload::prompts::Shape;

/// One part of the contest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Part {
    /// Store everything, look up, remove everything; bytes.
    Fill,
    /// Remove a random quarter of all blocks; lookups before and after.
    Scatter,
    /// Replace all suffixes, again and again; bytes.
    Turnover,
    /// Short private tails come and go under shared prompts.
    Decode,
    /// Lookups by number of holders and by length.
    Ladder,
    /// Stores, misses and evictions under a place with ever more children.
    Siblings,
    /// Lookups beside a writer at full speed.
    Beside,
    /// A production trace: lookups and events in turn.
    Mooncake,
    /// The trace at an offered rate (machines with cores to spare).
    OpenLoop,
    /// Our whole event path, from an engine's event on.
    Path,
}

/// One of the shapes of prompts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ShapeName {
    Shared,
    Private,
    Long,
    /// 1,024 holders of one prompt set.
    Crowd,
}

/// Who takes part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Entry {
    /// The chain index of this workspace.
    Ours,
    /// kv-index 2.0.0 of the registry.
    Smg,
    /// dynamo-kv-router 1.6.1, concurrent radix tree, compressed.
    Crtc,
    /// dynamo-kv-router 1.6.1, positional indexer.
    Positional,
    /// The reference model of this workspace; slow, checked at small scale only.
    Reference,
}

/// A part on a shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Case {
    pub part: Part,
    pub shape: ShapeName,
    pub names: Names,
}

impl Part {
    /// Whether the part runs on the shapes of prompts; the others bring their own.
    pub const fn has_shape(self) -> bool {
        matches!(self, Self::Fill | Self::Scatter | Self::Turnover)
    }
}

impl ShapeName {
    /// What it stands for.
    pub const fn shape(self) -> Shape {
        match self {
            Self::Shared => Shape::SHARED,
            Self::Private => Shape::PRIVATE,
            Self::Long => Shape::LONG,
            Self::Crowd => Shape::CROWD,
        }
    }
}

impl Entry {
    /// The name in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ours => "ours",
            Self::Smg => Smg::NAME,
            Self::Crtc => Crtc::NAME,
            Self::Positional => Positional::NAME,
            Self::Reference => Reference::NAME,
        }
    }

    /// Why this entry's answers called `answers` may differ from ours.
    pub fn excuse(self, answers: &str) -> Option<&'static str> {
        match self {
            Self::Ours | Self::Reference => None,
            Self::Smg => Smg::excuse(answers),
            Self::Crtc => Crtc::excuse(answers),
            Self::Positional => Positional::excuse(answers),
        }
    }

    /// Runs `part` with this entry.
    pub fn run(self, part: Part, trial: &mut Trial) {
        match self {
            Self::Ours if part == Part::Path => scenario::path::<OurIndex>(trial),
            Self::Ours => run::<Chain>(part, trial),
            Self::Smg => run::<Smg>(part, trial),
            Self::Crtc => run::<Crtc>(part, trial),
            Self::Positional => run::<Positional>(part, trial),
            Self::Reference => run::<Reference>(part, trial),
        }
    }
}

fn run<C: Contender>(part: Part, trial: &mut Trial) {
    match part {
        Part::Fill => scenario::fill::<C>(trial),
        Part::Scatter => scenario::scatter::<C>(trial),
        Part::Turnover => scenario::turnover::<C>(trial),
        Part::Decode => scenario::decode::<C>(trial),
        Part::Ladder => scenario::ladder::<C>(trial),
        Part::Siblings => scenario::siblings::<C>(trial),
        Part::Beside => scenario::beside::<C>(trial),
        Part::Mooncake => scenario::replay::<C>(trial),
        Part::OpenLoop => scenario::open_loop::<C>(trial),
        Part::Path => {}
    }
}

impl Case {
    /// The name in tables: shapes by their names, other parts by theirs.
    pub fn label(&self) -> String {
        let value = |name: Option<clap::builder::PossibleValue>| name.map_or(String::new(), |name| name.get_name().to_owned());
        let base =
            if self.part.has_shape() { value(self.shape.to_possible_value()) } else { value(self.part.to_possible_value()) };
        base + self.names.suffix()
    }

    /// What a child of this case is told.
    pub fn settings(&self, scale: f64, seed: u64) -> Settings {
        let lookups = if self.shape == ShapeName::Crowd { CROWD_LOOKUPS } else { LOOKUPS };
        let lookups = ((lookups as f64 * scale) as usize).clamp(lookups / 100, lookups);
        let shape = self.shape.shape().scaled(scale);
        Settings { shape, names: self.names, seed, scale, lookups, ..Settings::default() }
    }
}

/// The text's number.
const LOOKUPS: usize = 20_000;
/// Answers with 1,024 rows each.
const CROWD_LOOKUPS: usize = 2_000;
