//! Where an engine keeps a block, from the words that engines use for it.

use std::fmt;

/// A storage tier, fastest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Tier {
    /// The accelerator's own memory.
    Device,
    /// The host's memory.
    Host,
    /// A local disk.
    Disk,
    /// Shared or remote storage.
    External,
}

/// A set of tiers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tiers(u8);

impl Tier {
    /// All tiers, fastest first.
    pub const ALL: [Self; 4] = [Self::Device, Self::Host, Self::Disk, Self::External];

    /// Understands a medium's word, whatever its case; an absent one means the device. Nothing for a word that no
    /// release is known to send.
    ///
    /// The words: vLLM `GPU`, `CPU`, `FS`, `OBJ`, `STORAGE`; SGLang `GPU`, `CPU_PINNED`, `DISK`, `EXTERNAL`; and those
    /// that Dynamo understands.
    pub fn parse(word: Option<&str>) -> Option<Self> {
        let Some(word) = word else { return Some(Self::Device) };
        let table = [
            (Self::Device, &["GPU", "DEVICE"][..]),
            (Self::Host, &["CPU", "CPU_PINNED", "CPU_TIER1"]),
            (Self::Disk, &["DISK", "NVME", "STORAGE", "CPU_TIER2", "FS"]),
            (Self::External, &["EXTERNAL", "NETWORK", "REMOTE", "SHARED", "OBJ"]),
        ];
        table.into_iter().find(|(_, words)| words.iter().any(|known| known.eq_ignore_ascii_case(word))).map(|row| row.0)
    }

    /// The tier's name in metrics and reports.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Device => "device",
            Self::Host => "host",
            Self::Disk => "disk",
            Self::External => "external",
        }
    }
}

impl fmt::Display for Tier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Tiers {
    /// The device and the host: what an engine serves a prefix from without recomputing it or waiting for a disk.
    pub const SERVED: Self = Self::of(&[Tier::Device, Tier::Host]);

    /// The set of `tiers`.
    pub const fn of(tiers: &[Tier]) -> Self {
        let (mut bits, mut i) = (0, 0);
        while i < tiers.len() {
            bits |= 1 << tiers[i] as u8;
            i += 1;
        }
        Self(bits)
    }

    /// Whether `tier` is in the set.
    pub const fn contains(self, tier: Tier) -> bool {
        self.0 & (1 << tier as u8) != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_understood_whatever_their_case() {
        let of = |word| Tier::parse(Some(word));
        assert_eq!(Tier::parse(None), Some(Tier::Device));
        assert_eq!([of("GPU"), of("cpu"), of("CPU_PINNED")], [Some(Tier::Device), Some(Tier::Host), Some(Tier::Host)]);
        assert_eq!([of("STORAGE"), of("obj"), of("SOMETHING_NEW"), of("")], [Some(Tier::Disk), Some(Tier::External), None, None]);
    }

    #[test]
    fn served_tiers_are_device_and_host() {
        assert_eq!(Tier::ALL.map(|tier| Tiers::SERVED.contains(tier)), [true, true, false, false]);
    }
}
