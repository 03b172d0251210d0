//! `-p key=value`, as often as wanted.

use std::collections::BTreeMap;

/// Reads one `key=value`; for clap.
///
/// # Errors
/// When there is no `=`, or no key: wrong usage.
pub(super) fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some(("", _)) => Err("the key is empty; expected key=value".into()),
        Some((key, value)) => Ok((key.to_owned(), value.to_owned())),
        None => Err("there is no =; expected key=value".into()),
    }
}

/// Pairs as a map; the last one of a name stands.
pub(super) fn map(pairs: &[(String, String)]) -> BTreeMap<String, String> {
    pairs.iter().cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_may_hold_anything() {
        assert_eq!(pair("a=b=c,d"), Ok(("a".into(), "b=c,d".into())));
        assert_eq!(pair("a="), Ok(("a".into(), String::new())));
        assert!(pair("a").is_err() && pair("=b").is_err());
    }
}
