//! Lets a subscription have the flights that are late by more than so many minutes.

use weir_plugin_api::{Config, Error, Fields, Message, MessageFilter, Verdict, export};

/// Which flights are late.
#[derive(Config)]
struct LateFlights {
    /// Flights that are later than this are delivered, in minutes.
    #[config(default = 60)]
    minutes: i64,
}

impl MessageFilter for LateFlights {
    type Config = Self;
    const CLASS: &'static str = "demo.LateFlights";
    const READS: Fields = Fields::property("delay");

    fn new(config: Self) -> Result<Self, Error> {
        Ok(config)
    }

    fn judge(&mut self, message: &Message<'_>) -> Result<Verdict, Error> {
        let late = message.property_as::<i64>("delay").is_some_and(|delay| delay > self.minutes);
        Ok(Verdict::accept_if(late))
    }
}

export!(LateFlights);
