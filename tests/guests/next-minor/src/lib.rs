//! A filter that was built against the next minor of the contract, which adds a function that it may call
//! and one that it has. It says whether a host of the first minor still takes it.

use weir_plugin_api::{Error, Fields, Message, MessageFilter, Verdict, export};

struct NextMinor;

impl MessageFilter for NextMinor {
    type Config = ();
    const CLASS: &'static str = "demo.NextMinor";
    const READS: Fields = Fields::property("do");

    fn new((): ()) -> Result<Self, Error> {
        Ok(Self)
    }

    fn judge(&mut self, message: &Message<'_>) -> Result<Verdict, Error> {
        match message.property("do") {
            // Only a host of the next minor answers this.
            Some("batches") => Ok(Verdict::accept_if(batches() > 0)),
            other => Ok(Verdict::accept_if(other == Some("accept"))),
        }
    }
}

#[cfg(target_family = "wasm")]
fn batches() -> u64 {
    weir_plugin_api::component::v1_1::batches()
}

/// What the next minor adds natively is a function of the library, not of the host.
#[cfg(not(target_family = "wasm"))]
fn batches() -> u64 {
    1
}

export!(next_minor NextMinor);
