use super::*;

fn fields(names: &[&str]) -> Arc<[Field]> {
    names.iter().map(|name| Field::Property((*name).into())).collect()
}

/// What two columns hold after these properties were offered, one by one and at once.
#[track_caller]
fn check(offered: &[(&str, &str)], expected: [Option<&str>; 2]) {
    let mut messages = Messages::new(fields(&["region", "priority"]));
    // Twice, so that the second row goes by what the first has taught.
    for _ in 0..2 {
        let mut row = messages.row();
        for (name, value) in offered {
            row.property(name, value);
        }
        let first = messages.append(1);
        messages.fill_properties(first, std::iter::once(offered));
    }
    for row in 0..4 {
        let cells = [0, 1].map(|column| match messages.cell(row, column) {
            Cell::Missing => None,
            Cell::Text(text) => Some(text),
            other => panic!("{other:?}"),
        });
        assert_eq!(cells, expected, "row {row}");
    }
}

#[test]
fn what_is_read_is_kept_and_the_rest_is_dropped() {
    check(&[("region", "eu"), ("x", "y"), ("priority", "3")], [Some("eu"), Some("3")]);
    check(&[("priority", ""), ("regiom", "eu")], [None, Some("")]);
    check(&[], [None, None]);
}

#[test]
fn one_by_one_the_last_property_of_a_name_stands() {
    let mut messages = Messages::new(fields(&["region"]));
    let mut row = messages.row();
    row.property("region", "eu");
    row.property("region", "us");
    assert_eq!(messages.cell(0, 0), Cell::Text("us"));
}

#[test]
fn names_of_one_length_are_told_apart() {
    check(&[("tenant", "a"), ("source", "b"), ("order-id", "c"), ("trace", "d")], [None, None]);
}

#[test]
fn a_column_is_filled_from_lists_in_any_order() {
    // More rows than are filled at once, and the order changes with every third.
    let values: Vec<String> = (0..100).map(|n| n.to_string()).collect();
    let list = |n: usize| {
        let mut list = vec![("region", &*values[n]), ("x", "y"), ("priority", &*values[99 - n])];
        list.rotate_left(n / 3 % 3);
        list.truncate(3 - usize::from(n.is_multiple_of(7)));
        list
    };
    let lists: Vec<Vec<(&str, &str)>> = (0..100).map(list).collect();
    let mut messages = Messages::new(fields(&["priority", "region", "another"]));
    assert_eq!(messages.append(3), 0);
    let first = messages.append(100);
    messages.fill_properties(first, lists.iter().map(Vec::as_slice));
    for (n, list) in lists.iter().enumerate() {
        for (column, name) in ["priority", "region", "another"].into_iter().enumerate() {
            let value = list.iter().find(|(other, _)| *other == name).map(|(_, value)| Cell::Text(value));
            let row = u32::try_from(first + n).unwrap();
            assert_eq!(messages.cell(row, column), value.unwrap_or(Cell::Missing), "{name} of {n}");
        }
    }
    assert_eq!((messages.len(), messages.cell(2, 0)), (103, Cell::Missing));
}

#[test]
fn any_number_of_properties_may_come_in_any_order() {
    for number in 0..12 {
        let names: Vec<String> = (0..number).map(|n| format!("p{n}")).collect();
        for (region, priority) in [(0, number), (number, 0), (number / 2, number / 2)] {
            let mut offered: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "x")).collect();
            offered.insert(region, ("region", "eu"));
            check(&offered, [Some("eu"), None]);
            offered.insert(priority, ("priority", "3"));
            check(&offered, [Some("eu"), Some("3")]);
        }
    }
}

#[test]
fn fields_of_the_broker_have_their_kinds() {
    let all: Arc<[Field]> = Field::NAMED.map(|(_, field)| field).into();
    let mut messages = Messages::new(all.clone());
    let payload = Bytes::from_static(b"\x00\xff");
    let mut row = messages.row();
    row.text(&Field::Key, "k");
    row.bytes(&Field::OrderingKey, b"\xfe");
    row.number(&Field::EventTime, -1);
    row.payload(&payload);
    messages.row();
    let found: Vec<Cell> = (0..all.len()).map(|column| messages.cell(0, column)).collect();
    use Cell::{Missing, Number, Text};
    let (ordering_key, sent) = (Cell::Bytes(b"\xfe"), Cell::Bytes(b"\x00\xff"));
    let expected = [Text("k"), ordering_key, Missing, Missing, Missing, Number(-1), Missing, sent];
    assert_eq!(found, expected);
    assert!((0..all.len()).all(|column| messages.cell(1, column) == Missing), "an empty row is empty");
}

#[test]
fn a_recycled_batch_is_empty_and_works_as_before() {
    let mut messages = Messages::new(fields(&["a"]));
    {
        let value = String::from("gone");
        let mut first = Messages::new(fields(&["a"]));
        first.row().property("a", &value);
        messages = std::mem::replace(&mut messages, first.recycle());
        drop(value);
    }
    assert!(messages.is_empty());
    messages.row().property("a", "1");
    assert_eq!((messages.len(), messages.cell(0, 0)), (1, Cell::Text("1")));
}

#[test]
fn a_mapping_finds_each_field_of_the_filter_in_the_batch() {
    let map = |filter: &[&str], batch: &[&str]| Mapping::new(&fields(filter), &fields(batch));
    assert_eq!(map(&["b", "a", "b"], &["a", "b"]).complete(), Some(&[1, 0, 1][..]));
    let gathered = map(&["c", "b", "a"], &["a", "b"]);
    assert_eq!(gathered.complete(), None);
    assert_eq!(gathered.columns().collect::<Vec<_>>(), [None, Some(1), Some(0)]);
}

#[test]
fn names_compare_as_text_does() {
    let text = "abcdefghijklmnopqrstuvwxyz";
    for len in 0..=text.len() {
        let wanted = WantedProperty::new(&text[..len].into(), 0);
        assert!(wanted.is_called(&text[..len]), "{len}");
        for at in 0..len {
            let mut other = text[..len].to_owned();
            other.replace_range(at..=at, "Z");
            assert!(!wanted.is_called(&other), "{len} {at}");
        }
        assert!(!wanted.is_called(&format!("{}0", &text[..len])), "{len}");
    }
}
