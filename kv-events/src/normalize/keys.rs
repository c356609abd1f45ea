//! vLLM's extra keys: an untagged list in which the LoRA's name, multimodal items, the salt and prompt embeddings stand in
//! this order. What each is follows from its shape and place.

use kv_index::Item;

use crate::{ExtraKey, Layout};

/// What the extra keys of one block say.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Keys<'a> {
    /// The salt of the prompt that the block starts.
    pub(super) salt: Option<&'a str>,
    /// What else makes the block different.
    pub(super) items: Vec<Item<'a>>,
}

/// Reads the keys of one block. A salt can stand only where a prompt starts.
///
/// A text that is neither LoRA nor salt is a multimodal id of 0.17 and 0.18, whose offset those releases do not send: it makes
/// the block a content that no request matches, which is a miss and never a wrong hit. So does the one case in which
/// the two cannot be told apart, an image in the first block of an unsalted prompt there, which reads as a salt.
pub(super) fn read<'a>(keys: &'a [ExtraKey], lora: Option<&str>, starts_prompt: bool) -> Keys<'a> {
    let mut lora = lora;
    let mut read = Keys::default();
    for key in keys {
        match key {
            ExtraKey::Text(text) if lora == Some(text) => lora = None,
            ExtraKey::Text(text) if starts_prompt => {
                // The last text is the salt: multimodal ids stand in front of it.
                if let Some(id) = read.salt.replace(text) {
                    read.items.push(Item::Opaque(id.as_bytes()));
                }
            }
            ExtraKey::Text(text) => read.items.push(Item::Opaque(text.as_bytes())),
            ExtraKey::Item { id, offset } => read.items.push(Item::Multimodal { id, offset: *offset }),
            ExtraKey::Bytes(bytes) | ExtraKey::Unknown(bytes) => read.items.push(Item::Opaque(bytes)),
        }
    }
    read
}

/// A key that reads as `item` whatever the adapter is called and wherever in a prompt it stands.
pub(super) fn told_again(item: &Item<'_>) -> ExtraKey {
    match *item {
        Item::Multimodal { id, offset } => ExtraKey::Item { id: id.into(), offset },
        Item::Opaque(bytes) => ExtraKey::Bytes(bytes.into()),
    }
}

/// Whether a wire of this layout shows a salt at all: vLLM's extra keys came with the ninth slot.
pub(crate) const fn shows_salt(layout: Layout) -> bool {
    !matches!(layout, Layout::Array(..=8))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> ExtraKey {
        ExtraKey::Text(text.into())
    }

    fn image(id: &str, offset: i64) -> ExtraKey {
        ExtraKey::Item { id: id.into(), offset }
    }

    #[test]
    fn one_equal_text_is_the_lora_and_the_next_the_salt() {
        let keys = [text("ad1"), text("ad1")];
        assert_eq!(read(&keys, Some("ad1"), true), Keys { salt: Some("ad1"), items: vec![] });
        assert_eq!(read(&keys[..1], Some("ad1"), true), Keys::default());
        assert_eq!(read(&keys[..1], None, true).salt, Some("ad1"));
    }

    #[test]
    fn arrays_are_images_and_bytes_are_embeddings() {
        let keys = [text("ad1"), image("img", -3), text("salt"), ExtraKey::Bytes(vec![1, 2])];
        let read = read(&keys, Some("ad1"), true);
        assert_eq!(read.salt, Some("salt"));
        assert_eq!(read.items, [Item::Multimodal { id: "img", offset: -3 }, Item::Opaque(&[1, 2])]);
    }

    #[test]
    fn what_is_told_again_reads_the_same_anywhere() {
        let keys = [text("ad1"), text("old image"), image("img", -3), ExtraKey::Bytes(vec![1, 2])];
        let first = read(&keys, Some("ad1"), false);
        let again: Vec<_> = first.items.iter().map(told_again).collect();
        for (lora, starts_prompt) in [(Some("ad1"), true), (Some("old image"), false), (None, true)] {
            assert_eq!(read(&again, lora, starts_prompt), Keys { salt: None, items: first.items.clone() });
        }
    }

    #[test]
    fn a_text_inside_a_prompt_is_never_a_salt() {
        let keys = [text("3f3f"), text("aaaa")];
        assert_eq!(read(&keys, None, false), Keys { salt: None, items: vec![Item::Opaque(b"3f3f"), Item::Opaque(b"aaaa")] });
        assert_eq!(read(&keys, None, true), Keys { salt: Some("aaaa"), items: vec![Item::Opaque(b"3f3f")] });
    }
}
