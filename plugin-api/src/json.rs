//! The little JSON that is written by hand: a serializer would add to every component.

/// Appends a text as a JSON string.
pub(crate) fn push_string(json: &mut String, text: &str) {
    json.push('"');
    for c in text.chars() {
        match c {
            '"' => json.push_str("\\\""),
            '\\' => json.push_str("\\\\"),
            '\u{0}'..='\u{1f}' => {
                json.push_str("\\u00");
                for digit in [u32::from(c) >> 4, u32::from(c) & 15] {
                    json.push(char::from_digit(digit, 16).expect("four bits"));
                }
            }
            _ => json.push(c),
        }
    }
    json.push('"');
}

/// What an extension says of itself.
pub(crate) fn describe(class: &str, kind: &str, version: &str, contract: &str, schema: &str) -> String {
    let mut json = String::from("{\"class\":");
    push_string(&mut json, class);
    json.push_str(",\"kinds\":[");
    push_string(&mut json, kind);
    json.push_str("],\"version\":");
    push_string(&mut json, version);
    json.push_str(",\"contract\":");
    push_string(&mut json, contract);
    json.push_str(",\"schema\":");
    json.push_str(schema);
    json.push('}');
    json
}
