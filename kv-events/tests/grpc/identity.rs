//! What goes in comes out.

use kv_events::adapter::grpc::Update;
use kv_events::adapter::grpc::proto::kv_events as proto;
use proptest::prelude::*;
use prost::Message;

use crate::events::update;

proptest! {
    #[test]
    fn an_update_is_its_message_read_back(update in update()) {
        let bytes = proto::Update::from(&update).encode_to_vec();
        let read = Update::try_from(proto::Update::decode(bytes.as_slice()).unwrap()).unwrap();
        prop_assert_eq!(read, update);
    }

    /// Cut, flipped or garbled: no panic, and what is read is what the bytes can hold.
    #[test]
    fn hurt_messages_are_refused_or_read_and_never_panic(
        update in update(),
        cut in any::<prop::sample::Index>(),
        flips in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
    ) {
        let mut bytes = proto::Update::from(&update).encode_to_vec();
        for (at, bits) in flips {
            let at = at.index(bytes.len());
            bytes[at] ^= bits;
        }
        bytes.truncate(cut.index(bytes.len()) + 1);
        if let Ok(message) = proto::Update::decode(bytes.as_slice()) {
            let _ = Update::try_from(message);
        }
    }
}
