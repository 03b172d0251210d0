//! The hash of a list of topics, and the order in which it takes them.

use std::cmp::Ordering;

/// Hashes a list of topics as Pulsar does: CRC32C over the names, sorted by UTF-16 code units and joined
/// with `,`, as eight hex digits, low byte first. Order does not matter, a name that is there twice counts
/// twice, and no names hash to `00000000`.
///
/// Source: Pulsar `TopicList.calculateHash`; the vectors of its `TopicListTest` are tests here.
pub fn topic_list_hash<S: AsRef<str>>(names: &[S]) -> String {
    let mut sorted: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
    sorted.sort_unstable_by(|a, b| utf16_order(a, b));
    hash_of_sorted(sorted)
}

/// The same, of names that are in [`utf16_order`] already.
pub(crate) fn hash_of_sorted<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let mut crc = 0;
    for (i, name) in names.into_iter().enumerate() {
        if i > 0 {
            crc = crc32c::crc32c_append(crc, b",");
        }
        crc = crc32c::crc32c_append(crc, name.as_bytes());
    }
    format!("{:08x}", crc.swap_bytes())
}

/// The order of Java's strings: by UTF-16 code unit.
///
/// It differs from the order of bytes in one thing: characters from U+10000 on are surrogates (D800 to
/// DFFF) there, and so come before U+E000 to U+FFFF, whose UTF-8 begins with EE or EF.
pub(crate) fn utf16_order(a: &str, b: &str) -> Ordering {
    let differing = a.bytes().zip(b.bytes()).find(|(a, b)| a != b);
    match differing {
        Some((0xF0.., 0xEE | 0xEF)) => Ordering::Less,
        Some((0xEE | 0xEF, 0xF0..)) => Ordering::Greater,
        Some((a, b)) => a.cmp(&b),
        None => a.len().cmp(&b.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(prefix: &str, locals: &[&str], hash: &str) {
        let names: Vec<String> = locals.iter().map(|local| format!("{prefix}{local}")).collect();
        assert_eq!(topic_list_hash(&names), hash);
    }

    const TEST: &str = "persistent://my-property/my-ns/pattern-topic-";
    const PUBLIC: &str = "persistent://public/default/";

    #[test]
    fn pulsar_s_own_vectors() {
        check("", &[], "00000000");
        check(TEST, &["1"], "0d0602ed");
        check(TEST, &["1", "2", "3"], "90d4a04a");
        check(TEST, &["3", "1", "2"], "90d4a04a");
    }

    #[test]
    fn a_few_names() {
        check(PUBLIC, &["orders"], "3b616a66");
        check(PUBLIC, &["orders-us", "orders", "orders-eu"], "5958c183");
    }

    #[test]
    fn partitions_sort_as_text_and_domains_as_words() {
        let names = ["p-partition-0", "p-partition-1", "p-partition-10", "p-partition-2"];
        let mut names: Vec<String> = names.iter().map(|name| format!("{PUBLIC}{name}")).collect();
        names.push("non-persistent://public/default/n".to_owned());
        assert_eq!(topic_list_hash(&names), "b8c85586");
    }

    #[test]
    fn duplicates_count() {
        check(PUBLIC, &["a", "a"], "33a6ce8b");
    }

    #[test]
    fn names_sort_by_utf16_units() {
        check(PUBLIC, &["\u{FF5E}", "\u{10000}"], "c829bc65");
    }

    #[test]
    fn utf16_order_is_the_order_of_the_units() {
        let texts = ["", "a", "ab", "b", "é", "\u{D7FF}", "\u{E000}", "\u{FFFF}", "\u{10000}", "a\u{10FFFF}"];
        for a in texts {
            for b in texts {
                assert_eq!(utf16_order(a, b), a.encode_utf16().cmp(b.encode_utf16()), "{a:?} {b:?}");
            }
        }
    }
}
