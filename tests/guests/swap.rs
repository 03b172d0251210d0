// `demo.Swap`: accepts the numbers that leave `REMAINDER` when they are halved. One source of two guests,
// `even` and `odd`, each of which includes it: a test that replaces one by the other while messages flow sees
// which of them judged each message.

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
        Ok(Verdict::accept_if(n.rem_euclid(2) == REMAINDER))
    }
}

export!(Swap);
