//! What an instance may take: memories together, tables, handles, and bytes a host call may carry.

use wasmtime::ResourceLimiter;
use wasmtime::component::Component;

use crate::artifact::{Limits, OpenError};

/// Core instances of one component. Script guests have about ten.
const INSTANCES: usize = 64;

/// Memories of one component. Each costs address space even if it is small.
const MEMORIES: usize = 16;

/// Tables of one component.
const TABLES: usize = 64;

/// Elements of all tables together, 8 to 16 bytes each. Large Rust guests have a few thousand.
const TABLE_ELEMENTS: usize = 100_000;

/// Handles of resources that live at once: topic sets and streams.
pub(super) const HANDLES: usize = 10_000;

/// Bytes that the host allocates for one call of the guest: a log line, a pattern, names of topics.
/// Also what an answer may hold: a byte a message and a delay.
pub(super) const HOST_CALL_BYTES: usize = 16 << 20;

/// How the error begins that ends a lister whose topic sets take more of weir's memory than it may have of
/// its own.
pub(super) const TOO_MANY_SETS: &str = "the topic sets that it holds take";

const PAGE: u64 = 64 << 10;

/// Adds up what an instance takes. wasmtime's own limits look at each memory by itself.
pub(super) struct Limiter {
    memory: Budget,
    tables: Budget,
    refused: bool,
}

struct Budget {
    limit: usize,
    used: usize,
    /// What the last growth added, to take it back if the system refuses.
    granted: usize,
}

impl Budget {
    fn new(limit: usize) -> Self {
        Self { limit, used: 0, granted: 0 }
    }

    fn grow(&mut self, current: usize, desired: usize) -> bool {
        let more = desired.saturating_sub(current);
        let fits = self.limit - self.used >= more;
        self.granted = if fits { more } else { 0 };
        self.used += self.granted;
        fits
    }

    fn take_back(&mut self) {
        self.used -= std::mem::take(&mut self.granted);
    }
}

impl Limiter {
    pub(super) fn new(memory: usize) -> Self {
        Self { memory: Budget::new(memory), tables: Budget::new(TABLE_ELEMENTS), refused: false }
    }

    /// Whether it was refused a growth. The guest may have coped; if it broke, that is why.
    pub(super) fn refused(&self) -> bool {
        self.refused
    }

    pub(super) fn limit(&self) -> usize {
        self.memory.limit
    }
}

impl ResourceLimiter for Limiter {
    fn memory_growing(&mut self, current: usize, desired: usize, _: Option<usize>) -> wasmtime::Result<bool> {
        let fits = self.memory.grow(current, desired);
        self.refused |= !fits;
        Ok(fits)
    }

    fn memory_grow_failed(&mut self, _: wasmtime::Error) -> wasmtime::Result<()> {
        self.memory.take_back();
        Ok(())
    }

    fn table_growing(&mut self, current: usize, desired: usize, _: Option<usize>) -> wasmtime::Result<bool> {
        let fits = self.tables.grow(current, desired);
        self.refused |= !fits;
        Ok(fits)
    }

    fn table_grow_failed(&mut self, _: wasmtime::Error) -> wasmtime::Result<()> {
        self.tables.take_back();
        Ok(())
    }

    fn instances(&self) -> usize {
        INSTANCES
    }

    fn tables(&self) -> usize {
        TABLES
    }

    fn memories(&self) -> usize {
        MEMORIES
    }
}

/// Refuses a component that needs more than its limits before it runs.
pub(super) fn check(component: &Component, limits: &Limits) -> Result<(), OpenError> {
    let Some(needs) = component.resources_required() else {
        return Err(OpenError("it imports core modules, which weir does not offer".into()));
    };
    let refuse = |what: String| Err(OpenError(format!("it is too greedy: {what}")));
    if needs.num_memories as usize > MEMORIES {
        return refuse(format!("{} memories, at most {MEMORIES} are allowed", needs.num_memories));
    }
    if needs.num_tables as usize > TABLES {
        return refuse(format!("{} tables, at most {TABLES} are allowed", needs.num_tables));
    }
    let memory = needs.max_initial_memory_size.unwrap_or(0).saturating_mul(PAGE);
    if memory > limits.memory as u64 {
        return refuse(format!("it starts with a memory of {memory} bytes, its limit is {}", limits.memory));
    }
    Ok(())
}

/// Whether an error of wasmtime says that one of the limits above was met. They have no type of their own.
pub(super) fn is_limit(reason: &str) -> bool {
    [
        "fuel allocated for hostcalls",
        "handle limit",
        "handle table",
        "resource limit exceeded",
        "exceeds memory limits",
        "exceeds table limits",
        TOO_MANY_SETS,
    ]
    .iter()
    .any(|word| reason.contains(word))
}
