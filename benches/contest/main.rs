#[global_allocator]
static ALLOCATOR: contest::measure::alloc::Counting = contest::measure::alloc::Counting;
use contest::contender::*;
use contest::scenario::*;
use contest::workload::{names::Names, prompts::Shape};
fn go<C: Contender>(shape: Shape) {
    for part in [fill::<C> as fn(&mut Trial), scatter::<C>, turnover::<C>] {
        let mut t = Trial::new(Settings { shape, names: Names::Agree, seed: 1, lookups: 20000, turns: 3, answers: None });
        part(&mut t);
        for m in t.measures {
            println!("{:8} {:10} {:28} {:10.2} {}", shape.name, C::NAME, m.op, m.value, m.unit);
        }
    }
}
fn main() {
    let a: Vec<String> = std::env::args().collect();
    for s in [Shape::SHARED, Shape::PRIVATE, Shape::LONG, Shape::CROWD] {
        if s.name != a[2] {
            continue;
        }
        match a[1].as_str() {
            "smg" => go::<Smg>(s),
            "crtc" => go::<Crtc>(s),
            "pos" => go::<Positional>(s),
            "ref" => go::<Reference>(s.scaled(0.02)),
            _ => {}
        }
    }
}
