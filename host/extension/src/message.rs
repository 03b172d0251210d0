//! Messages as filters see them: for each message a row, for each field that some filter reads a cell.
//!
//! Cells borrow from the entry they were read from, so a view is built once a batch, without copying a
//! value, and is shared by every filter of a chain. They are kept in the form in which native
//! libraries take them; see `native.rs`.

use std::sync::Arc;

use bytes::Bytes;
use weir_plugin_api::native::{Slot, Value};

#[cfg(test)]
mod tests;

/// A field of a message that a filter may read.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Field {
    /// A property that the producer set, by its name. Text.
    Property(Arc<str>),
    /// The partition key. Text; missing if the message has none.
    Key,
    /// The ordering key. Bytes.
    OrderingKey,
    /// The full name of the topic. Text.
    Topic,
    /// The producer's name. Text.
    Producer,
    /// When the producer published it, in milliseconds since 1970. i64.
    PublishTime,
    /// The event time that the producer set, in milliseconds since 1970. i64; missing if it set none.
    EventTime,
    /// The producer's sequence id. i64.
    SequenceId,
    /// What the producer sent, decompressed. Bytes.
    Payload,
}

impl Field {
    /// The fields that are not properties, by the names that extensions know them by.
    pub const NAMED: [(&'static str, Self); 8] = [
        ("key", Self::Key),
        ("ordering-key", Self::OrderingKey),
        ("topic", Self::Topic),
        ("producer", Self::Producer),
        ("publish-time", Self::PublishTime),
        ("event-time", Self::EventTime),
        ("sequence-id", Self::SequenceId),
        ("payload", Self::Payload),
    ];

    /// What its cells hold.
    pub(crate) fn kind(&self) -> CellKind {
        match self {
            Self::Property(_) | Self::Key | Self::Topic | Self::Producer => CellKind::Text,
            Self::PublishTime | Self::EventTime | Self::SequenceId => CellKind::Number,
            Self::OrderingKey | Self::Payload => CellKind::Bytes,
        }
    }

    /// Where its column is remembered; `None` for a property, which has a name instead.
    fn place(&self) -> Option<usize> {
        Self::NAMED.iter().position(|(_, field)| field == self)
    }
}

/// What the cells of a column hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CellKind {
    Bytes,
    Text,
    Number,
}

/// The value of one cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cell<'a> {
    /// The message has no such field.
    Missing,
    /// Bytes.
    Bytes(&'a [u8]),
    /// Text.
    Text(&'a str),
    /// A number.
    Number(i64),
}

/// A batch of messages: the rows that one call judges.
///
/// `fields` are the cells' meanings, in order. Rows are appended by a protocol's decoder, which offers
/// everything it finds; what no filter reads is dropped there and then.
///
/// Memory: 24 bytes a cell, and a reference count for each payload if payloads are read.
pub struct Messages<'a> {
    fields: Arc<[Field]>,
    rows: u32,
    /// `rows` × `fields`, row by row.
    cells: Vec<Slot<'a>>,
    /// One a row if payloads are read, else empty.
    payloads: Vec<Option<Bytes>>,
    wanted: Wanted,
}

/// Where an offered value goes. Kept over the batches of a worker by [`Messages::recycle`].
struct Wanted {
    properties: Vec<WantedProperty>,
    /// The column of each of [`Field::NAMED`].
    named: [Option<u16>; Field::NAMED.len()],
    /// Bit n: a wanted property has a name of n bytes (63: or more). Most offers end at this test.
    lengths: u64,
    /// For the nth property of a message, which wanted one it was last time. Producers set properties
    /// in the same order again and again.
    guesses: Vec<u16>,
}

struct WantedProperty {
    name: Arc<str>,
    column: u16,
}

/// A guess that says: none of the wanted ones.
const NONE: u16 = u16::MAX;

/// How many properties of a message have their place remembered; later ones are searched.
const GUESSES: usize = 64;

/// Up to this many properties, [`Row::properties`] looks for each wanted one among them; above, it
/// looks up each of them, so that its time stays linear in what a producer may send.
const FEW_PROPERTIES: usize = 16;

/// The row that is being filled. Cells not set are missing.
pub struct Row<'m, 'a> {
    messages: &'m mut Messages<'a>,
    /// Where its cells begin.
    base: usize,
    /// How many properties were offered.
    offered: usize,
}

impl<'a> Messages<'a> {
    /// No rows yet, with these fields as columns. A field named twice is filled once, where it stands
    /// first.
    pub fn new(fields: Arc<[Field]>) -> Self {
        let wanted = Wanted::new(&fields);
        Self { fields, rows: 0, cells: Vec::new(), payloads: Vec::new(), wanted }
    }

    /// No rows again, for another batch with the same fields: keeps the memory, and what was learned of
    /// the order of properties.
    pub fn recycle<'b>(self) -> Messages<'b> {
        let Self { fields, mut cells, mut payloads, wanted, .. } = self;
        cells.clear();
        payloads.clear();
        // Collecting an empty vector into one of another lifetime reuses its memory.
        let cells = cells.into_iter().map(|_| Slot::MISSING).collect();
        Messages { fields, rows: 0, cells, payloads, wanted }
    }

    /// The fields that rows hold, in the order of their cells.
    pub fn fields(&self) -> &Arc<[Field]> {
        &self.fields
    }

    /// The number of messages.
    pub fn len(&self) -> usize {
        self.rows as usize
    }

    /// Whether there is no message.
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// Appends a row whose cells are all missing.
    #[inline]
    pub fn row(&mut self) -> Row<'_, 'a> {
        let base = self.cells.len();
        self.rows += 1;
        self.cells.resize(base + self.fields.len(), Slot::MISSING);
        if self.reads_payload() {
            self.payloads.push(None);
        }
        Row { messages: self, base, offered: 0 }
    }

    /// Offers a text field for all rows from `first` on: what they share and their entry does not know,
    /// as their topic's name.
    pub fn fill_text(&mut self, field: &Field, first: u32, value: &'a str) {
        debug_assert_eq!(field.kind(), CellKind::Text, "{field:?} is of another kind");
        let column = field.place().and_then(|place| self.wanted.named[place]);
        if let Some(column) = column {
            let width = self.fields.len();
            let rest = self.cells.iter_mut().skip(first as usize * width + usize::from(column));
            rest.step_by(width).for_each(|cell| *cell = Slot::text(value));
        }
    }

    /// The cell of one message in one column.
    ///
    /// # Panics
    /// When there is no such row or column.
    pub fn cell(&self, row: u32, column: usize) -> Cell<'_> {
        assert!(column < self.fields.len(), "column {column} of {}", self.fields.len());
        if self.fields[column] == Field::Payload {
            return self.payload(row).map_or(Cell::Missing, |payload| Cell::Bytes(payload));
        }
        match self.cells(row)[column].value() {
            Value::Text(text) => Cell::Text(text),
            Value::Bytes(bytes) => Cell::Bytes(bytes),
            Value::Number(number) => Cell::Number(number),
            Value::Missing | Value::Flag(_) => Cell::Missing,
        }
    }

    /// The cells of one message, payload's apart: see [`payload`](Self::payload).
    #[inline]
    pub(crate) fn cells(&self, row: u32) -> &[Slot<'a>] {
        let width = self.fields.len();
        &self.cells[row as usize * width..][..width]
    }

    /// All cells, row by row.
    #[inline]
    pub(crate) fn all_cells(&self) -> &[Slot<'a>] {
        &self.cells
    }

    /// The payload of one message, if payloads are read and it was given one.
    pub(crate) fn payload(&self, row: u32) -> Option<&Bytes> {
        self.payloads.get(row as usize)?.as_ref()
    }

    fn reads_payload(&self) -> bool {
        self.wanted.named[Field::NAMED.len() - 1].is_some()
    }
}

impl<'a> Row<'_, 'a> {
    /// Offers a property; the last one of a name stands, as in Pulsar's clients.
    #[inline]
    pub fn property(&mut self, name: &str, value: &'a str) {
        let wanted = &mut self.messages.wanted;
        if wanted.lengths & length_bit(name) == 0 {
            self.offered += 1;
            return;
        }
        let guess = wanted.guesses.get(self.offered).copied().unwrap_or(NONE);
        let hit = match wanted.properties.get(usize::from(guess)) {
            Some(property) if same(property.name.as_bytes(), name.as_bytes()) => Some(property.column),
            _ => wanted.search(self.offered, name),
        };
        self.offered += 1;
        if let Some(column) = hit {
            self.messages.cells[self.base + usize::from(column)] = Slot::text(value);
        }
    }

    /// Offers all properties at once: as [`property`](Self::property) for each, and cheaper where a
    /// message has few of them. Call it at most once a row.
    #[inline]
    pub fn properties(&mut self, properties: &[(&str, &'a str)]) {
        if properties.len() > FEW_PROPERTIES {
            for (name, value) in properties {
                self.property(name, value);
            }
            return;
        }
        let Messages { wanted, cells, .. } = &mut *self.messages;
        let cells = &mut cells[self.base..];
        for property in &wanted.properties {
            // From the end, since the last one of a name stands.
            for (name, value) in properties.iter().rev() {
                if same(property.name.as_bytes(), name.as_bytes()) {
                    cells[usize::from(property.column)] = Slot::text(value);
                    break;
                }
            }
        }
    }

    /// Offers a text field ([`Field::Key`], [`Field::Topic`], [`Field::Producer`]).
    pub fn text(&mut self, field: &Field, value: &'a str) {
        self.set(field, CellKind::Text, Slot::text(value));
    }

    /// Offers a number ([`Field::PublishTime`], [`Field::EventTime`], [`Field::SequenceId`]).
    pub fn number(&mut self, field: &Field, value: i64) {
        self.set(field, CellKind::Number, Slot::number(value));
    }

    /// Offers bytes ([`Field::OrderingKey`]).
    pub fn bytes(&mut self, field: &Field, value: &'a [u8]) {
        self.set(field, CellKind::Bytes, Slot::bytes(value));
    }

    /// Offers the payload; kept by reference count when some filter reads it.
    pub fn payload(&mut self, value: &Bytes) {
        if let Some(payload) = self.messages.payloads.last_mut() {
            *payload = Some(value.clone());
        }
    }

    fn set(&mut self, field: &Field, kind: CellKind, value: Slot<'a>) {
        debug_assert_eq!(field.kind(), kind, "{field:?} is of another kind");
        let column = field.place().and_then(|place| self.messages.wanted.named[place]);
        if let Some(column) = column {
            self.messages.cells[self.base + usize::from(column)] = value;
        }
    }
}

impl Wanted {
    fn new(fields: &[Field]) -> Self {
        let mut wanted = Self {
            properties: Vec::new(),
            named: [None; Field::NAMED.len()],
            lengths: 0,
            guesses: Vec::new(),
        };
        for (column, field) in fields.iter().enumerate() {
            let column = u16::try_from(column).expect("a batch has at most MAX_FIELDS columns");
            match (field, field.place()) {
                (Field::Property(name), _) => {
                    if !wanted.properties.iter().any(|property| property.name == *name) {
                        wanted.lengths |= length_bit(name);
                        wanted.properties.push(WantedProperty { name: name.clone(), column });
                    }
                }
                (_, Some(place)) => {
                    wanted.named[place].get_or_insert(column);
                }
                (_, None) => unreachable!("every field but a property has a name"),
            }
        }
        wanted
    }

    /// The column of a property whose place was guessed wrongly; remembers where it stood.
    #[cold]
    fn search(&mut self, nth: usize, name: &str) -> Option<u16> {
        let hit = self.properties.iter().position(|property| &*property.name == name);
        if nth < GUESSES {
            if self.guesses.len() <= nth {
                self.guesses.resize(nth + 1, NONE);
            }
            // A property that nobody reads leaves the guess: the one that is read will come again.
            if let Some(hit) = hit {
                self.guesses[nth] = u16::try_from(hit).unwrap_or(NONE);
            }
        }
        hit.map(|hit| self.properties[hit].column)
    }
}

fn length_bit(name: &str) -> u64 {
    1 << name.len().min(63)
}

/// Equality of short names without a call: 2 to 3 ns less than `==`, six times a message.
#[inline(always)]
fn same(a: &[u8], b: &[u8]) -> bool {
    if a.len() != b.len() {
        return false;
    }
    if let (Some(x), Some(y), Some(p), Some(q)) =
        (a.first_chunk::<8>(), b.first_chunk::<8>(), a.last_chunk::<8>(), b.last_chunk::<8>())
    {
        return x == y && p == q && (a.len() <= 16 || a == b);
    }
    if let (Some(x), Some(y), Some(p), Some(q)) =
        (a.first_chunk::<4>(), b.first_chunk::<4>(), a.last_chunk::<4>(), b.last_chunk::<4>())
    {
        return x == y && p == q;
    }
    a.iter().zip(b).all(|(x, y)| x == y)
}

/// How a filter's fields lie in the batches that it is given: found once, kept while batches have the
/// same fields.
pub(crate) struct Mapping {
    /// Held, so that its address cannot come back as another's.
    batch: Arc<[Field]>,
    /// For each of the filter's fields, its column in the batch; [`NONE`] if the batch has none.
    columns: Vec<u16>,
    /// The batch has all of them: its rows can be taken as they are.
    complete: bool,
}

impl Mapping {
    /// The mapping for a batch, found anew only if its fields are not those of the batch before.
    #[inline]
    pub(crate) fn of<'s>(slot: &'s mut Option<Self>, filter: &[Field], batch: &Arc<[Field]>) -> &'s Self {
        match slot {
            Some(mapping) if Arc::ptr_eq(&mapping.batch, batch) => {}
            _ => *slot = Some(Self::new(filter, batch)),
        }
        slot.as_ref().expect("just set")
    }

    fn new(filter: &[Field], batch: &Arc<[Field]>) -> Self {
        let find = |field: &Field| batch.iter().position(|other| other == field);
        let columns: Vec<u16> = filter
            .iter()
            .map(|field| find(field).and_then(|column| u16::try_from(column).ok()).unwrap_or(NONE))
            .collect();
        let complete = !columns.contains(&NONE);
        Self { batch: batch.clone(), columns, complete }
    }

    /// For each of the filter's fields its column in the batch, if the batch has them all.
    #[inline]
    pub(crate) fn complete(&self) -> Option<&[u16]> {
        self.complete.then_some(&self.columns)
    }

    /// For each of the filter's fields, its column in the batch, if the batch has it.
    #[inline]
    pub(crate) fn columns(&self) -> impl ExactSizeIterator<Item = Option<usize>> + '_ {
        self.columns.iter().map(|column| (*column != NONE).then_some(usize::from(*column)))
    }
}
