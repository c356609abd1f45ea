//! Maps of exceptions, which hold nothing for an ordinary block.

use std::hash::Hash;

use hashbrown::HashMap;

/// Removes `key`, and gives memory back once far more is kept than is used: what a burst of exceptions took is not kept for
/// the life of the stream. Constant time over many calls.
pub(crate) fn remove<K: Eq + Hash, V>(map: &mut HashMap<K, V>, key: &K) -> Option<V> {
    let removed = map.remove(key)?;
    // Not by `capacity`, which counts the traces of removed entries as room that is gone.
    let used_bytes = map.len() * size_of::<(K, V)>();
    if map.allocation_size() > SPARE_BYTES_MAX && map.allocation_size() / 8 > used_bytes {
        map.shrink_to(2 * map.len());
    }
    Some(removed)
}

/// Bytes that a map may keep for nothing.
const SPARE_BYTES_MAX: usize = 32 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_falls_with_what_is_held() {
        let mut map: HashMap<u64, u64> = (0..100_000).map(|key| (key, key)).collect();
        let full = map.allocation_size();
        assert!((0..99_000).all(|key| remove(&mut map, &key) == Some(key)));
        assert!(map.len() == 1_000 && map.allocation_size() < full / 8, "{} of {full} bytes", map.allocation_size());
        assert!((99_000..100_000).all(|key| remove(&mut map, &key) == Some(key)) && remove(&mut map, &1).is_none());
    }
}
