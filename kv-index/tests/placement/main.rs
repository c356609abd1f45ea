//! Topologies and placements on machines that are not there: described as plain data, as the files of Linux, and (feature `hwloc`)
//! as hwloc's synthetic machines.

#[cfg(feature = "hwloc")]
mod hwloc;
mod limits;
mod machine;
#[cfg(target_os = "linux")]
mod pin;
mod plans;
mod rules;
mod sysfs;
