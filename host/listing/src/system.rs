//! Which topics are a broker's own and stand in no listing.

use weir_extension::TopicName;

const LOCAL: [&str; 4] = [
    "__change_events",
    "__transaction_buffer_snapshot",
    "__transaction_buffer_snapshot_indexes",
    "__transaction_buffer_snapshot_segments",
];
const PREFIX: [&str; 2] = [
    "persistent://pulsar/system/transaction_coordinator_assign",
    "persistent://pulsar/system/__transaction_log_",
];
const SUFFIX: &str = "__transaction_pending_ack";

/// Whether a base topic is a system topic. Other names that begin with `__` are not.
///
/// Source: Pulsar `TopicList.filterSystemTopic`, `SystemTopicNames`.
pub(crate) fn is_system(base: &TopicName) -> bool {
    LOCAL.contains(&base.local())
        || PREFIX.iter().any(|prefix| base.as_str().starts_with(prefix))
        || base.as_str().ends_with(SUFFIX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn system_topics_are_known_by_name() {
        let system = [
            "persistent://a/b/__change_events",
            "persistent://a/b/__transaction_buffer_snapshot_segments",
            "non-persistent://a/b/__change_events",
            "persistent://pulsar/system/transaction_coordinator_assign",
            "persistent://pulsar/system/__transaction_log_3",
            "persistent://a/b/orders-sub__transaction_pending_ack",
        ];
        let ordinary = [
            "persistent://a/b/__compaction",
            "persistent://a/b/x__change_events",
            "persistent://a/b/transaction_coordinator_assign",
            "persistent://a/b/__transaction_log_3",
        ];
        for name in system {
            assert!(is_system(&TopicName::new(name).unwrap()), "{name}");
        }
        for name in ordinary {
            assert!(!is_system(&TopicName::new(name).unwrap()), "{name}");
        }
    }
}
