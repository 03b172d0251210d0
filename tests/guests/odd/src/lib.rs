//! `demo.Swap`, the version that accepts odd numbers; `even` is the other. A test that replaces one by the
//! other while messages flow sees which of them judged each message.

use weir_plugin_api::{Error, Fields, Message, MessageFilter, Verdict, export};

struct Swap;

impl MessageFilter for Swap {
    type Config = ();
    const CLASS: &'static str = "demo.Swap";
    const READS: Fields = Fields::property("n");

    fn new((): ()) -> Result<Self, Error> {
        Ok(Self)
    }

    fn judge(&mut self, message: &Message<'_>) -> Result<Verdict, Error> {
        let n: i64 = message.property_as("n").ok_or_else(|| Error::new("the property n is no number"))?;
        Ok(Verdict::accept_if(n % 2 != 0))
    }
}

export!(Swap);
