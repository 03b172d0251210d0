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
/// Memory: 16 bytes a cell, twice that while it grows, and a reference count for each payload if payloads
/// are read.
pub struct Messages<'a> {
    fields: Arc<[Field]>,
    rows: usize,
    /// `rows` × `fields`, row by row.
    cells: Vec<Slot<'a>>,
    /// One a row if payloads are read, else empty.
    payloads: Vec<Option<Bytes>>,
    /// Boxed, since a batch is moved each time it is recycled.
    wanted: Box<Wanted>,
}

/// Where an offered value goes. Kept over the batches of a worker by [`Messages::recycle`].
struct Wanted {
    properties: Vec<WantedProperty>,
    /// The column of each of [`Field::NAMED`].
    named: [Option<u16>; Field::NAMED.len()],
    /// Bit n: a wanted property has a name of n bytes (63: or more). Most offers end at this test.
    lengths: u64,
}

struct WantedProperty {
    name: Arc<str>,
    /// The first and the last bytes of its name, as [`ends`] has them.
    ends: [u64; 2],
    column: u16,
    /// Where it was found last among a message's properties: producers send them in one order.
    place: usize,
}

/// As many rows are filled column by column: what is read of their messages then still lies in the
/// nearest cache when the next column comes to it.
const BLOCK: usize = 64;

/// A column of a filter that a batch does not have.
const NONE: u16 = u16::MAX;

/// The row that is being filled. Cells not set are missing.
pub struct Row<'m, 'a> {
    cells: &'m mut [Slot<'a>],
    wanted: &'m mut Wanted,
    /// If payloads are read.
    payload: Option<&'m mut Option<Bytes>>,
}

impl<'a> Messages<'a> {
    /// No rows yet, with these fields as columns. A field named twice is filled once, where it stands
    /// first.
    pub fn new(fields: Arc<[Field]>) -> Self {
        let wanted = Box::new(Wanted::new(&fields));
        Self { fields, rows: 0, cells: Vec::new(), payloads: Vec::new(), wanted }
    }

    /// No rows again, for another batch with the same fields: keeps the memory, and what was learned of
    /// the order of properties.
    pub fn recycle<'b>(self) -> Messages<'b> {
        let Self { fields, mut cells, mut payloads, wanted, .. } = self;
        cells.clear();
        payloads.clear();
        // Collecting a vector into one of another lifetime reuses its memory.
        let cells = cells.into_iter().map(|_| Slot::MISSING).collect();
        Messages { fields, rows: 0, cells, payloads, wanted }
    }

    /// The fields that rows hold, in the order of their cells.
    pub fn fields(&self) -> &Arc<[Field]> {
        &self.fields
    }

    /// The number of messages.
    pub fn len(&self) -> usize {
        self.rows
    }

    /// Whether there is no message.
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// Appends `n` rows whose cells are all missing; gives back the number of the first.
    #[inline]
    pub fn append(&mut self, n: usize) -> usize {
        let first = self.rows;
        self.rows += n;
        self.cells.resize(self.rows * self.fields.len(), Slot::MISSING);
        if self.reads_payload() {
            self.payloads.resize(self.rows, None);
        }
        first
    }

    /// Appends a row whose cells are all missing, to be filled.
    pub fn row(&mut self) -> Row<'_, 'a> {
        let base = self.append(1) * self.fields.len();
        Row { cells: &mut self.cells[base..], wanted: &mut self.wanted, payload: self.payloads.last_mut() }
    }

    /// Offers a text field for all rows from `first` on: what they share and their entry does not know,
    /// as their topic's name.
    pub fn fill_text(&mut self, field: &Field, first: usize, value: &'a str) {
        debug_assert_eq!(field.kind(), CellKind::Text, "{field:?} is of another kind");
        let column = field.place().and_then(|place| self.wanted.named[place]);
        if let Some(column) = column {
            let width = self.fields.len();
            let rest = self.cells.iter_mut().skip(first * width + usize::from(column));
            rest.step_by(width).for_each(|cell| *cell = Slot::text(value));
        }
    }

    /// Offers the properties of all rows from `first` on, a list for each row. Their names are unique
    /// within a message: so the contract has it, and so one comparison finds a property that lies where
    /// the last message had it.
    #[inline(always)]
    pub fn fill_properties<'p>(
        &mut self,
        first: usize,
        mut lists: impl Iterator<Item = &'p [(&'p str, &'a str)]> + Clone,
    ) where
        'a: 'p,
    {
        let width = self.fields.len();
        let mut cells = &mut self.cells[first * width..];
        while !cells.is_empty() {
            let (block, rest) = cells.split_at_mut(cells.len().min(BLOCK * width));
            for wanted in &mut self.wanted.properties {
                wanted.fill(block, width, lists.clone());
            }
            cells = rest;
            if !cells.is_empty() {
                lists.by_ref().take(BLOCK).for_each(drop);
            }
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
        if self.wanted.lengths & length_bit(name) == 0 {
            return;
        }
        let wanted = self.wanted.properties.iter().find(|wanted| wanted.is_called(name));
        if let Some(property) = wanted {
            self.cells[usize::from(property.column)] = Slot::text(value);
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
        if let Some(payload) = &mut self.payload {
            **payload = Some(value.clone());
        }
    }

    fn set(&mut self, field: &Field, kind: CellKind, value: Slot<'a>) {
        debug_assert_eq!(field.kind(), kind, "{field:?} is of another kind");
        let column = field.place().and_then(|place| self.wanted.named[place]);
        if let Some(column) = column {
            self.cells[usize::from(column)] = value;
        }
    }
}

impl Wanted {
    fn new(fields: &[Field]) -> Self {
        let mut wanted = Self { properties: Vec::new(), named: [None; Field::NAMED.len()], lengths: 0 };
        for (column, field) in fields.iter().enumerate() {
            let column = u16::try_from(column).expect("a batch has at most MAX_FIELDS columns");
            match (field, field.place()) {
                (Field::Property(name), _) => {
                    if !wanted.properties.iter().any(|property| property.name == *name) {
                        wanted.lengths |= length_bit(name);
                        wanted.properties.push(WantedProperty::new(name, column));
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
}

impl WantedProperty {
    fn new(name: &Arc<str>, column: u16) -> Self {
        let ends = if name.len() < 8 { ends::<4>(name) } else { ends::<8>(name) };
        Self { name: name.clone(), ends, column, place: 0 }
    }

    /// Fills its column in some rows, from a list of properties for each.
    #[inline(always)]
    fn fill<'p, 'a: 'p>(
        &mut self,
        cells: &mut [Slot<'a>],
        width: usize,
        lists: impl Iterator<Item = &'p [(&'p str, &'a str)]>,
    ) {
        // How a name is compared is chosen once for all rows.
        match self.name.len() {
            8..=16 => self.fill_by::<8>(cells, width, lists),
            4..=7 => self.fill_by::<4>(cells, width, lists),
            _ => self.fill_by::<0>(cells, width, lists),
        }
    }

    /// Compares the first and the last N bytes of a name that has N to 2 N; all of it, if N is 0. On its own,
    /// since the loop needs all registers.
    #[inline(never)]
    fn fill_by<'p, 'a: 'p, const N: usize>(
        &mut self,
        cells: &mut [Slot<'a>],
        width: usize,
        lists: impl Iterator<Item = &'p [(&'p str, &'a str)]>,
    ) {
        let (column, own, own_ends) = (usize::from(self.column), &*self.name, self.ends);
        // Said here, so that nothing of it is checked for each row.
        assert!(column < width && own.len() >= N, "a column lies in its row, and a name has its ends");
        let mut place = self.place;
        for (row, properties) in cells.chunks_exact_mut(width).zip(lists) {
            let is_called = |name: &str| match N {
                0 => *name == *own,
                _ => name.len() == own.len() && ends::<N>(name) == own_ends,
            };
            // Each arm writes for itself: a cell that came out of the `match` would pass through memory
            // in two sizes, which costs more than all the rest.
            match properties.get(place) {
                Some((name, value)) if is_called(name) => row[column] = Slot::text(value),
                _ => {
                    if let Some(found) = self.find(properties) {
                        place = found;
                        row[column] = Slot::text(properties[found].1);
                    }
                }
            }
        }
        self.place = place;
    }

    /// Where it is among a message's properties.
    #[cold]
    #[inline(never)]
    fn find(&self, properties: &[(&str, &str)]) -> Option<usize> {
        properties.iter().position(|(name, _)| self.is_called(name))
    }

    /// Equality without a call, of names of some lengths: 2 to 3 ns less than `==`.
    #[inline(always)]
    fn is_called(&self, name: &str) -> bool {
        name.len() == self.name.len()
            && match self.name.len() {
                8..=16 => ends::<8>(name) == self.ends,
                4..=7 => ends::<4>(name) == self.ends,
                _ => *name == *self.name,
            }
    }
}

/// The first and the last N bytes of a name; all of it, if it has N to 2 N.
#[inline(always)]
fn ends<const N: usize>(name: &str) -> [u64; 2] {
    let word = |bytes: Option<&[u8; N]>| {
        let mut word = [0; 8];
        if let Some(bytes) = bytes {
            word[..N].copy_from_slice(bytes);
        }
        u64::from_le_bytes(word)
    };
    [word(name.as_bytes().first_chunk()), word(name.as_bytes().last_chunk())]
}

fn length_bit(name: &str) -> u64 {
    1 << name.len().min(63)
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
