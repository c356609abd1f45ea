//! Pinning of this very process's threads.

use std::thread;

use kv_index::lanes::CpuSet;
use kv_index::lanes::pin::{self, PinError, Pinned};
use kv_index::limits::CPUS_MAX;

/// Linux's number of "invalid argument".
const EINVAL: i32 = 22;

#[test]
fn a_pinned_thread_runs_there_and_others_run_where_they_ran() {
    let before = pin::affinity().unwrap();
    for cpu in before.iter() {
        let there = thread::spawn(move || (pin::current_thread(&CpuSet::from(cpu)), pin::affinity()));
        assert_eq!(there.join().unwrap(), (Ok(Pinned::Here), Some(CpuSet::from(cpu))));
    }
    assert_eq!(pin::affinity(), Some(before));
}

#[test]
fn a_set_of_several_cpus_is_kept_whole() {
    let all = pin::affinity().unwrap();
    let there = thread::spawn({
        let all = all.clone();
        move || (pin::current_thread(&all), pin::affinity())
    });
    assert_eq!(there.join().unwrap(), (Ok(Pinned::Here), Some(all)));
}

#[test]
fn a_cpu_that_is_not_there_is_refused_with_the_systems_reason() {
    let before = pin::affinity();
    let cpus = CpuSet::from(CPUS_MAX - 1);
    assert_eq!(pin::current_thread(&cpus), Err(PinError::Refused { cpus, errno: EINVAL }));
    for cpus in [CpuSet::new(), CpuSet::from(CPUS_MAX)] {
        assert_eq!(pin::current_thread(&cpus), Err(PinError::NoSuchCpu { cpus }));
    }
    assert_eq!(pin::affinity(), before);
}
