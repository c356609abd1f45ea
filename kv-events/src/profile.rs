//! What a stream has shown of its engine, and what a lookup makes of it.

use std::collections::BTreeSet;

use kv_index::reuse::{Group, JointReuse};
use kv_index::{ContentHash, Index, Namespace, Runs, Scheme, View, WorkerId};

use crate::dialect::{Caveat, Dialect, Scope};

/// What is known of one stream. Cheap to share; made anew only when something changed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Profile {
    /// The engine, once it is recognised.
    pub dialect: Option<Dialect>,
    /// How requests must be cut to be found, once the stream has stored a block.
    pub scheme: Option<Scheme>,
    /// The cache groups and their views.
    pub groups: Vec<GroupViews>,
    /// What the wire leaves open.
    pub caveats: BTreeSet<Caveat>,
    /// The engine reuses one block less than it finds: vLLM with an EAGLE drafter and without lookahead hashing.
    pub drops_last_block: bool,
}

/// A cache group's views in the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupViews {
    /// What the group keeps.
    pub group: Group,
    /// Held on any served tier.
    pub any: View,
    /// Held on the device, where that is scored apart.
    pub device: Option<View>,
}

/// How much of a prompt a worker will reuse.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Prediction {
    /// Blocks, in units of the stream's scheme.
    pub blocks: u32,
    /// Tokens: what the engine will report as cached.
    pub tokens: usize,
}

/// Turns lookups into predictions. Reuse one value for many: it keeps its memory.
#[derive(Clone, Debug, Default)]
pub struct Predictor {
    joint: JointReuse,
    runs: Runs,
}

impl Profile {
    /// Of a stream that has shown nothing yet.
    pub(crate) fn unknown(drops_last_block: bool) -> Self {
        Self { caveats: [Caveat::NotRecognised].into(), drops_last_block, ..Self::default() }
    }

    /// Why a request in `namespace` cannot be predicted exactly on this stream; nothing if it can.
    pub fn caveat_for(&self, namespace: Namespace<'_>) -> Option<Caveat> {
        let concerns = |caveat: &&Caveat| match caveat.scope() {
            Scope::Stream => true,
            Scope::Salted => namespace.salt.is_some_and(|salt| !salt.is_empty()),
            Scope::Namespaced => namespace.lora.is_some_and(|lora| !lora.is_empty()),
        };
        self.caveats.iter().find(concerns).copied()
    }
}

impl Predictor {
    /// A predictor.
    pub fn new() -> Self {
        Self::default()
    }

    /// What `worker` will reuse of a prompt of `prompt_tokens` tokens whose blocks are `request`: at most all but the last
    /// token, and jointly over the groups of a hybrid model. Nothing before the stream has stored a block.
    pub fn predict<I: Index>(
        &mut self,
        index: &I,
        worker: WorkerId,
        profile: &Profile,
        request: &[ContentHash],
        prompt_tokens: usize,
    ) -> Prediction {
        let Some(scheme) = profile.scheme else { return Prediction::default() };
        let reusable = request.len().min(scheme.reusable_in(prompt_tokens));
        let found = self.longest(index, worker, profile, scheme, &request[..reusable]);
        let blocks = if profile.drops_last_block { found.saturating_sub(1) } else { found };
        Prediction { blocks, tokens: blocks as usize * scheme.block_tokens.get() as usize }
    }

    /// The longest prefix of `request` that every group of `worker` can go on from.
    fn longest<I: Index>(
        &mut self,
        index: &I,
        worker: WorkerId,
        profile: &Profile,
        scheme: Scheme,
        request: &[ContentHash],
    ) -> u32 {
        match profile.groups.as_slice() {
            [] => 0,
            [only] if only.group.kind.is_main() && only.group.block_tokens == scheme.block_tokens => {
                index.depth(worker, only.any, request)
            }
            groups => {
                self.joint.clear();
                for views in groups {
                    index.coverage(worker, views.any, request, &mut self.runs);
                    self.joint.push(views.group, scheme.block_tokens, &self.runs);
                }
                self.joint.longest(u32::try_from(request.len()).unwrap_or(u32::MAX))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caveat_concerns_the_requests_of_its_scope() {
        let profile = |caveat| Profile { caveats: [caveat].into(), ..Profile::default() };
        let of = |caveat, lora, salt| profile(caveat).caveat_for(Namespace { lora, salt });
        let (salt, name) = (Caveat::SaltNotShown, Caveat::NamespaceNotShown);
        assert_eq!([of(salt, None, None), of(salt, Some("ad1"), Some("")), of(salt, None, Some("a"))], [None, None, Some(salt)]);
        assert_eq!([of(name, None, None), of(name, Some(""), Some("a")), of(name, Some("ad1"), None)], [None, None, Some(name)]);
        assert_eq!(of(Caveat::MixedSchemes, None, None), Some(Caveat::MixedSchemes));
    }
}
