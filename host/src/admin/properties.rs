//! `?properties=k1=v1,k2=v2` of a listing.
//!
//! Pulsar decodes it twice: the whole parameter as part of the address, then each key and each value as
//! a form does (`+` is a space). So a key or value that holds `,`, `=`, `+` or `%` has to be encoded once
//! for itself and once more with the address; a `=` in a value is taken as it stands, too.
//!
//! Pulsar leaves out what it cannot read, which turns a typing error into a list of everything. Here
//! that is an error that names the item.

use std::collections::BTreeMap;

/// The properties of a listing, from the parameter after its first decoding. Blank: none. The last one
/// of a name stands.
///
/// # Errors
/// With a sentence that names the malformed item.
pub(super) fn parse(parameter: &str) -> Result<BTreeMap<String, String>, String> {
    if parameter.trim().is_empty() {
        return Ok(BTreeMap::new());
    }
    let mut properties = BTreeMap::new();
    for item in parameter.split(',') {
        let wrong =
            |reason: &str| format!("properties: item {item:?} {reason}; expected key=value,key=value");
        if item.trim().is_empty() {
            return Err(wrong("is empty: there is a comma too many"));
        }
        let (key, value) = item.split_once('=').ok_or_else(|| wrong("has no ="))?;
        let key = decode(key.trim()).ok_or_else(|| wrong("has a key that is not valid percent-encoding"))?;
        let value =
            decode(value.trim()).ok_or_else(|| wrong("has a value that is not valid percent-encoding"))?;
        if key.is_empty() {
            return Err(wrong("has an empty key"));
        }
        properties.insert(key, value);
    }
    Ok(properties)
}

/// Undoes form encoding. `None` when a `%` is not followed by two hex digits, or the bytes are not UTF-8.
fn decode(text: &str) -> Option<String> {
    let mut bytes = text.bytes();
    let mut decoded = Vec::with_capacity(text.len());
    while let Some(byte) = bytes.next() {
        decoded.push(match byte {
            b'+' => b' ',
            b'%' => {
                let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
                let (high, low) = (digit(bytes.next())?, digit(bytes.next())?);
                u8::try_from(high * 16 + low).ok()?
            }
            other => other,
        });
    }
    String::from_utf8(decoded).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(parameter: &str, properties: &[(&str, &str)]) {
        let expected = properties.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        assert_eq!(parse(parameter), Ok(expected));
    }

    #[track_caller]
    fn refused(parameter: &str, item: &str) {
        let error = parse(parameter).unwrap_err();
        assert!(error.contains(&format!("item {item:?}")), "{error}");
    }

    #[test]
    fn properties_are_read_as_pulsar_reads_them() {
        check("", &[]);
        check("  ", &[]);
        check("a=1,b=2", &[("a", "1"), ("b", "2")]);
        check("b=2,a=1", &[("a", "1"), ("b", "2")]);
        check("a=", &[("a", "")]);
        check("a=b=c", &[("a", "b=c")]);
        check(" a = 1 ", &[("a", "1")]);
        check("a=1,a=2", &[("a", "2")]);
        check("a=x+y", &[("a", "x y")]);
        check("a=x%2Cy", &[("a", "x,y")]);
        check("a=x%3Dy%25", &[("a", "x=y%")]);
        check("gr%C3%BC%C3%9Fe=%E2%82%AC", &[("grüße", "€")]);
    }

    #[test]
    fn malformed_items_are_named() {
        refused("a", "a");
        refused("a=1,b", "b");
        refused("=x", "=x");
        refused(" =x", " =x");
        refused("a=1,,b=2", "");
        refused("a=1,", "");
        refused(",", "");
        refused("a=%zz", "a=%zz");
        refused("a=%4", "a=%4");
        refused("%ff=1", "%ff=1");
    }
}
