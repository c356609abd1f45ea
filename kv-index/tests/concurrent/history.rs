//! What every worker covered when, and whether what a lookup saw was so at some moment of it (rule 13).
//!
//! A writer takes a stamp from one counter before and after each operation, a reader before and after each lookup. Where an
//! operation's stamps and a lookup's overlap, the lookup may have seen the place as it was before, after, or in between; elsewhere
//! the order of the stamps says what it must have seen.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

use kv_index::testing::Op;
use kv_index::{Block, BlockName, ContentHash, Match, Runs, View, WorkerId};

/// Gives every moment its number.
#[derive(Default)]
pub(crate) struct Clock(AtomicU64);

/// From before a call to after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Interval {
    pub(crate) from: u64,
    pub(crate) to: u64,
}

/// What a lookup answered, and when.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) when: Interval,
    pub(crate) answer: Answer,
}

#[derive(Clone, Debug)]
pub(crate) enum Answer {
    /// All rows of one `find`.
    Found(Vec<Match>),
    /// One worker's depth.
    Depth(Match),
    /// What one view covers.
    Covered(WorkerId, View, Runs),
}

/// A place, by number. The root is 0.
type PlaceId = u32;
const ROOT: PlaceId = 0;

/// Every place that any worker ever stored.
#[derive(Default)]
pub(crate) struct Places(HashMap<(PlaceId, ContentHash), PlaceId>);

/// Who was in the index when, and covered what.
#[derive(Default)]
pub(crate) struct History {
    places: Places,
    lives: Vec<Life>,
    changes: HashMap<(usize, View, PlaceId), Vec<Change>>,
    /// For each first place, whoever ever covered it.
    first: HashMap<PlaceId, Vec<(usize, View)>>,
}

/// A worker from its addition to its removal.
struct Life {
    id: WorkerId,
    added: Interval,
    dropped: Option<Interval>,
    views: u8,
    /// Where each name is held, and in which views.
    names: HashMap<BlockName, (PlaceId, u32)>,
    /// Names that a view holds at a place.
    held: HashMap<(View, PlaceId), u32>,
}

/// What one operation did to the cover of one place.
struct Change {
    when: Interval,
    /// Whether it was covered, and whether it was uncovered, at some moment of the operation but its first.
    covered: bool,
    uncovered: bool,
    /// Whether it is covered afterwards.
    then: bool,
}

impl Clock {
    pub(crate) fn now(&self) -> u64 {
        self.0.fetch_add(1, Ordering::SeqCst)
    }

    pub(crate) fn time<T>(&self, call: impl FnOnce() -> T) -> (Interval, T) {
        let from = self.now();
        let answer = call();
        (Interval { from, to: self.now() }, answer)
    }
}

impl Places {
    fn child(&mut self, parent: PlaceId, content: ContentHash) -> PlaceId {
        let next = PlaceId::try_from(self.0.len() + 1).expect("few places");
        *self.0.entry((parent, content)).or_insert(next)
    }

    /// The places of a request, as far as anybody ever stored them.
    fn path(&self, request: &[ContentHash]) -> Vec<PlaceId> {
        let step = |place: &mut PlaceId, &content: &ContentHash| {
            *place = *self.0.get(&(*place, content))?;
            Some(*place)
        };
        request.iter().scan(ROOT, step).collect()
    }
}

impl History {
    /// A worker came in. Returns the number of its life.
    pub(crate) fn add(&mut self, id: WorkerId, views: u8, when: Interval) -> usize {
        self.lives.push(Life { id, added: when, dropped: None, views, names: HashMap::new(), held: HashMap::new() });
        self.lives.len() - 1
    }

    /// An operation on a life. Those of one life come in order.
    pub(crate) fn apply(&mut self, life: usize, op: &Op, when: Interval) {
        let views = self.lives[life].views;
        match op {
            Op::Store { view, parent, blocks, .. } => self.store(life, View(view % views), *parent, blocks, when),
            Op::Remove { view, names, .. } => names.iter().for_each(|name| self.let_go(life, 1 << (view % views), *name, when)),
            Op::Clear { view, .. } => self.clear(life, view.map_or(u32::MAX, |view| 1 << (view % views)), when),
            Op::Drop { .. } => {
                self.clear(life, u32::MAX, when);
                self.lives[life].dropped = Some(when);
            }
            Op::Add { .. } | Op::Find { .. } => unreachable!("no operation on a life"),
        }
    }

    fn store(&mut self, life: usize, view: View, parent: Option<BlockName>, blocks: &[Block], when: Interval) {
        let held = parent.map(|parent| self.lives[life].names.get(&parent).map(|&(place, _)| place));
        let Some(mut place) = held.unwrap_or(Some(ROOT)) else { return };
        for block in blocks {
            place = self.places.child(place, block.content);
            if let Some(name) = block.name {
                self.hold(life, view, name, place, when);
            }
        }
    }

    fn hold(&mut self, life: usize, view: View, name: BlockName, place: PlaceId, when: Interval) {
        if self.lives[life].names.get(&name).is_some_and(|&(old, _)| old != place) {
            self.let_go(life, u32::MAX, name, when);
        }
        let (_, views) = self.lives[life].names.entry(name).or_insert((place, 0));
        let is_new = *views >> view.0 & 1 == 0;
        *views |= 1 << view.0;
        if is_new {
            self.count(life, view, place, true, when);
        }
    }

    fn let_go(&mut self, life: usize, views: u32, name: BlockName, when: Interval) {
        let Some((place, held)) = self.lives[life].names.get_mut(&name) else { return };
        let (place, gone) = (*place, *held & views);
        *held &= !views;
        if *held == 0 {
            self.lives[life].names.remove(&name);
        }
        for view in (0..32).filter(|view| gone >> view & 1 == 1).map(View) {
            self.count(life, view, place, false, when);
        }
    }

    fn clear(&mut self, life: usize, views: u32, when: Interval) {
        let names: Vec<BlockName> = self.lives[life].names.keys().copied().collect();
        names.into_iter().for_each(|name| self.let_go(life, views, name, when));
    }

    /// Counts one more or one less name of a view at a place.
    fn count(&mut self, life: usize, view: View, place: PlaceId, more: bool, when: Interval) {
        let count = self.lives[life].held.entry((view, place)).or_insert(0);
        let was_covered = *count > 0;
        *count = if more { *count + 1 } else { *count - 1 };
        let is_covered = *count > 0;
        if was_covered != is_covered {
            self.change(life, view, place, is_covered, when);
        }
    }

    fn change(&mut self, life: usize, view: View, place: PlaceId, is_covered: bool, when: Interval) {
        let changes = self.changes.entry((life, view, place)).or_default();
        if changes.is_empty() {
            self.first.entry(place).or_default().push((life, view));
        }
        if changes.last().is_none_or(|last| last.when != when) {
            changes.push(Change { when, covered: false, uncovered: false, then: false });
        }
        let last = changes.last_mut().expect("pushed if it was not there");
        last.covered |= is_covered;
        last.uncovered |= !is_covered;
        last.then = is_covered;
    }

    /// Whether the place was `covered`, or was not, at some moment of `when`.
    fn was(&self, life: usize, view: View, place: PlaceId, covered: bool, when: Interval) -> bool {
        let Some(changes) = self.changes.get(&(life, view, place)) else { return !covered };
        let next = changes.partition_point(|change| change.when.to < when.from);
        let at_first = next > 0 && changes[next - 1].then;
        let meanwhile = changes[next..].iter().take_while(|change| change.when.from < when.to);
        at_first == covered || meanwhile.into_iter().any(|change| if covered { change.covered } else { change.uncovered })
    }

    /// Whoever had the id at some moment of `when`.
    fn lives(&self, id: WorkerId, when: Interval) -> impl Iterator<Item = usize> + '_ {
        let there =
            move |life: &Life| life.id == id && life.added.from < when.to && life.dropped.is_none_or(|gone| gone.to > when.from);
        (0..self.lives.len()).filter(move |&life| there(&self.lives[life]))
    }

    /// Says what is wrong with what a lookup of `request` saw, if anything.
    pub(crate) fn check(&self, request: &[ContentHash], seen: &Seen) -> Result<(), String> {
        let path = self.places.path(request);
        let asked = request.len();
        match &seen.answer {
            Answer::Found(rows) => {
                rows.iter().try_for_each(|row| self.check_row(&path, asked, *row, seen.when))?;
                self.check_absent(&path, rows, seen.when)
            }
            Answer::Depth(row) => self.check_row(&path, asked, *row, seen.when),
            Answer::Covered(worker, view, runs) => self.check_runs(&path, *worker, *view, runs, seen.when),
        }
    }

    /// Each place of the row was covered, and the next was not, all of it by one worker of that id.
    fn check_row(&self, path: &[PlaceId], asked: usize, row: Match, when: Interval) -> Result<(), String> {
        let depth = row.depth as usize;
        if depth > path.len() {
            return Err(format!("{row:?}, but nobody ever stored more than {} of {asked} places", path.len()));
        }
        let mut reasons = Vec::new();
        for life in self.lives(row.worker, when) {
            let not_covered = path[..depth].iter().position(|&place| !self.was(life, row.view, place, true, when));
            let goes_on = path.get(depth).is_some_and(|&place| !self.was(life, row.view, place, false, when));
            match not_covered {
                Some(at) => reasons.push(format!("place {at} was not covered")),
                None if goes_on => reasons.push(format!("place {depth} was covered all the time")),
                None => return Ok(()),
            }
        }
        // Nobody with the id covers nothing.
        if depth == 0 && reasons.is_empty() { Ok(()) } else { Err(format!("{row:?} at {when:?} of {asked} places: {reasons:?}")) }
    }

    /// Whoever is in no row did not cover the first place at some moment.
    fn check_absent(&self, path: &[PlaceId], rows: &[Match], when: Interval) -> Result<(), String> {
        let Some(&first) = path.first() else { return Ok(()) };
        for &(life, view) in self.first.get(&first).into_iter().flatten() {
            let id = self.lives[life].id;
            let in_rows = rows.iter().any(|row| (row.worker, row.view) == (id, view));
            if !in_rows && !self.was(life, view, first, false, when) {
                return Err(format!("no row of {id} {view} at {when:?}, which covered the first place all the time"));
            }
        }
        Ok(())
    }

    /// Each position was covered or not covered as the runs say, all of it by one worker of that id.
    fn check_runs(&self, path: &[PlaceId], worker: WorkerId, view: View, runs: &Runs, when: Interval) -> Result<(), String> {
        let mut covered = vec![false; path.len()];
        for run in runs.as_slice() {
            let Some(run) = covered.get_mut(run.start as usize..run.end as usize) else {
                return Err(format!("{worker} {view} covers {run:?}, where nobody ever stored anything"));
            };
            run.fill(true);
        }
        let mut wrong = Vec::new();
        for life in self.lives(worker, when) {
            let differs = path.iter().zip(&covered).position(|(&place, &covered)| !self.was(life, view, place, covered, when));
            let Some(at) = differs else { return Ok(()) };
            wrong.push(at);
        }
        if wrong.is_empty() && runs.as_slice().is_empty() {
            return Ok(());
        }
        Err(format!("{worker} {view} at {when:?} covers {:?}, wrong at {wrong:?}", runs.as_slice()))
    }
}

/// The check itself must be able to say no.
mod tests {
    use super::*;

    const MAIN: View = View::MAIN;

    fn at(from: u64, to: u64) -> Interval {
        Interval { from, to }
    }

    fn contents(len: u64) -> Vec<ContentHash> {
        (0..len).map(ContentHash).collect()
    }

    fn store(len: u64) -> Op {
        let blocks = (0..len).map(|nth| Block::named(BlockName(nth), ContentHash(nth))).collect();
        Op::Store { seat: 0, view: 0, parent: None, blocks }
    }

    /// Worker 3 covers three places from 10 or 11 on, the middle one until 20 or 21, and is gone at 30 or 31.
    fn history() -> History {
        let mut history = History::default();
        let life = history.add(WorkerId(3), 1, at(1, 2));
        history.apply(life, &store(3), at(10, 11));
        history.apply(life, &Op::Remove { seat: 0, view: 0, names: vec![BlockName(1)] }, at(20, 21));
        history.apply(life, &Op::Drop { seat: 0 }, at(30, 31));
        history
    }

    fn found(history: &History, when: Interval, depth: u32) -> bool {
        let row = Match { depth, worker: WorkerId(3), view: MAIN };
        let rows = if depth == 0 { Vec::new() } else { vec![row] };
        let by_find = history.check(&contents(4), &Seen { when, answer: Answer::Found(rows) }).is_ok();
        assert_eq!(history.check(&contents(4), &Seen { when, answer: Answer::Depth(row) }).is_ok(), by_find);
        by_find
    }

    #[test]
    fn what_was_never_so_is_refused_and_what_may_have_been_so_is_not() {
        let history = history();
        let may_be = |from, to| (0..5).filter(|&depth| found(&history, at(from, to), depth)).collect::<Vec<_>>();
        assert_eq!(may_be(3, 4), [0]);
        assert_eq!(may_be(5, 10), [0], "the store begins afterwards");
        assert_eq!(may_be(5, 12), [0, 1, 2, 3], "in the middle of the store");
        assert_eq!(may_be(12, 13), [3]);
        assert_eq!(may_be(12, 22), [1, 3], "two would be a place that went on");
        assert_eq!(may_be(22, 23), [1]);
        assert_eq!(may_be(22, 40), [0, 1]);
        assert_eq!(may_be(32, 33), [0]);
    }

    #[test]
    fn an_heir_of_an_id_is_not_its_former_owner() {
        let mut history = history();
        let heir = history.add(WorkerId(3), 1, at(40, 41));
        history.apply(heir, &store(2), at(50, 51));
        assert!(!found(&history, at(29, 60), 3) || found(&history, at(29, 60), 1), "not both of the former owner");
        assert!(!found(&history, at(35, 60), 3), "the former owner is gone");
        assert!(found(&history, at(35, 60), 2));
        // The former owner covered places 0 and 2, the heir 0 and 1: nobody all of them.
        let mut runs = Runs::new();
        runs.push(0, 3);
        let answer = Answer::Covered(WorkerId(3), MAIN, runs);
        assert!(history.check(&contents(3), &Seen { when: at(22, 60), answer }).is_err());
    }

    #[test]
    fn runs_are_held_to_every_position() {
        let history = history();
        let covered = |when, runs: &[(u32, u32)]| {
            let mut all = Runs::new();
            runs.iter().for_each(|&(start, end)| all.push(start, end));
            history.check(&contents(4), &Seen { when, answer: Answer::Covered(WorkerId(3), MAIN, all) }).is_ok()
        };
        assert!(covered(at(12, 13), &[(0, 3)]) && !covered(at(12, 13), &[(0, 1), (2, 3)]));
        assert!(covered(at(22, 23), &[(0, 1), (2, 3)]) && !covered(at(22, 23), &[(0, 3)]) && !covered(at(22, 23), &[(0, 1)]));
        assert!(!covered(at(12, 13), &[(0, 4)]) && !covered(at(12, 13), &[]) && covered(at(32, 33), &[]));
    }
}
