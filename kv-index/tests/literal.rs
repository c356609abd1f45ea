//! The reference against an even more literal model, in which a place is written out as the path it is.

use std::collections::{BTreeMap, BTreeSet};

use kv_index::testing::{Driver, Mix, Op, any_ops, holdings, random_ops};
use kv_index::{Block, BlockName, ContentHash, Holding, Index, ReferenceIndex, View};
use proptest::prelude::*;

type Path = Vec<ContentHash>;

/// One worker: who holds what where. Nothing is derived, nothing is cached.
#[derive(Default)]
struct Literal {
    held: BTreeSet<(Path, View, BlockName)>,
}

impl Literal {
    fn place(&self, name: BlockName) -> Option<Path> {
        self.held.iter().find(|held| held.2 == name).map(|held| held.0.clone())
    }

    fn store(&mut self, view: View, parent: Option<BlockName>, blocks: &[Block]) {
        let Some(mut path) = parent.map_or(Some(Path::new()), |parent| self.place(parent)) else { return };
        for block in blocks {
            path.push(block.content);
            if let Some(name) = block.name {
                self.held.retain(|held| held.2 != name || held.0 == path);
                self.held.insert((path.clone(), view, name));
            }
        }
    }

    fn remove(&mut self, view: View, names: &[BlockName]) {
        self.held.retain(|held| !(held.1 == view && names.contains(&held.2)));
    }

    fn covers(&self, view: View, path: &[ContentHash]) -> bool {
        self.held.iter().any(|held| held.1 == view && held.0 == path)
    }

    fn depth(&self, view: View, request: &[ContentHash]) -> usize {
        (1..=request.len()).take_while(|&end| self.covers(view, &request[..end])).count()
    }

    fn holdings(&self) -> BTreeSet<Holding> {
        let of = |(path, view, name): &(Path, View, BlockName)| Holding {
            view: *view,
            position: u32::try_from(path.len() - 1).unwrap(),
            content: *path.last().unwrap(),
            name: *name,
        };
        self.held.iter().map(of).collect()
    }
}

/// Seats as [`Driver`] gives them out: the lowest free one first.
#[derive(Default)]
struct Literals(Vec<Option<(u8, Literal)>>);

impl Literals {
    fn seat(&mut self, seat: usize) -> Option<&mut Option<(u8, Literal)>> {
        let seat = seat.checked_rem(self.0.len())?;
        self.0.get_mut(seat)
    }

    fn apply(&mut self, op: &Op) {
        if let Op::Add { views } = op {
            match self.0.iter_mut().find(|seat| seat.is_none()) {
                Some(seat) => *seat = Some((*views, Literal::default())),
                None => self.0.push(Some((*views, Literal::default()))),
            }
            return;
        }
        let (Op::Drop { seat } | Op::Store { seat, .. } | Op::Remove { seat, .. } | Op::Clear { seat, .. }) = op else { return };
        let Some(slot) = self.seat(*seat) else { return };
        let Some((views, literal)) = slot.as_mut() else { return };
        match op {
            Op::Drop { .. } => *slot = None,
            Op::Store { view, parent, blocks, .. } => literal.store(View(view % *views), *parent, blocks),
            Op::Remove { view, names, .. } => literal.remove(View(view % *views), names),
            Op::Clear { view: Some(view), .. } => literal.held.retain(|held| held.1 != View(view % *views)),
            Op::Clear { view: None, .. } => literal.held.clear(),
            Op::Add { .. } | Op::Find { .. } => unreachable!("handled above"),
        }
    }
}

fn check(ops: &[Op]) {
    let mut driver = Driver::new(ReferenceIndex::new());
    let mut literals = Literals::default();
    let mut ids = BTreeMap::new();
    for op in ops {
        let answer = driver.apply(op);
        literals.apply(op);
        if let kv_index::testing::Answer::Added(id) = answer {
            let taken: BTreeSet<_> = ids.values().copied().collect();
            let seat = (0..literals.0.len()).find(|seat| literals.0[*seat].is_some() && !ids.contains_key(seat)).unwrap();
            assert!(!taken.contains(&id), "two workers of one id");
            ids.insert(seat, id);
        }
        ids.retain(|seat, _| literals.0[*seat].is_some());
        let Op::Find { request } = op else { continue };
        for (seat, id) in &ids {
            let (views, literal) = literals.0[*seat].as_ref().unwrap();
            for view in (0..*views).map(View) {
                assert_eq!(driver.index().depth(*id, view, request) as usize, literal.depth(view, request), "{id} {view}");
            }
        }
    }
    for (seat, id) in &ids {
        assert_eq!(holdings(driver.index(), *id), literals.0[*seat].as_ref().unwrap().1.holdings());
    }
    kv_index::testing::assert_same(driver.index(), driver.index());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn the_reference_is_the_literal_model(ops in any_ops(Mix::DENSE, 120)) {
        check(&ops);
    }
}

#[test]
fn seeded_corpora_agree() {
    (0..30).for_each(|seed| check(&random_ops(seed, 400, &Mix::DENSE)));
    (0..3).for_each(|seed| check(&random_ops(seed, 120, &Mix { names: 60, blocks: 12, ..Mix::LONG })));
}
