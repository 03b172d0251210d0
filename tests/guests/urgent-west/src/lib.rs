//! What `make bench` measures: two properties, one compared and one read as a number.

use weir_plugin_api::{Error, Fields, Message, MessageFilter, Verdict, export};

struct UrgentWest;

impl MessageFilter for UrgentWest {
    type Config = ();
    const CLASS: &'static str = "demo.UrgentWest";
    const READS: Fields = Fields::property("region").and_property("priority");

    fn new((): ()) -> Result<Self, Error> {
        Ok(Self)
    }

    fn judge(&mut self, message: &Message<'_>) -> Result<Verdict, Error> {
        let urgent = || message.property_as::<i32>("priority").is_some_and(|priority| priority > 3);
        Ok(Verdict::accept_if(message.property("region") == Some("us-west") && urgent()))
    }
}

export!(UrgentWest);
