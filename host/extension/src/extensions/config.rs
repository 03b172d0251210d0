//! Configuration by class name: what an extension is given when a binding brings none of its own.

use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;
use tracing::info;

use super::errors::ConfigError;
use super::key::ClassName;
use super::schema::Refusal;
use super::table::Entry;
use super::trial::OnTrial;
use super::{Extensions, no_config};

/// The configuration of a class.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct ClassConfig {
    /// What is set.
    pub config: Value,
    /// The configuration file set it: it cannot be changed here.
    pub set_by_file: bool,
}

impl Extensions {
    /// The configuration that is set for a class, registered or not.
    pub fn config(&self, class: &ClassName) -> Option<ClassConfig> {
        let config = self.books.lock().configs.get(class).cloned()?;
        Some(ClassConfig { config: Value::clone(&config), set_by_file: self.set_by_file(class) })
    }

    /// Configures a class: checked against the schema of the version in force, then by it, then kept and
    /// swapped in. Batches in flight end on the old one.
    ///
    /// # Errors
    /// Each leaves the old configuration in force.
    pub fn set_config(&self, class: &ClassName, config: Value) -> Result<(), ConfigError> {
        self.change_config(class, Some(Arc::new(config)))
    }

    /// Takes the configuration of a class away. What calls it without one of its own gets `{}` then.
    ///
    /// # Errors
    /// When the configuration file set it; when the class is in use and needs one.
    pub fn clear_config(&self, class: &ClassName) -> Result<(), ConfigError> {
        self.change_config(class, None)
    }

    pub(super) fn change_config(
        &self,
        class: &ClassName,
        config: Option<Arc<Value>>,
    ) -> Result<(), ConfigError> {
        if self.set_by_file(class) {
            return Err(ConfigError::SetByFile { key: config_key(class) });
        }
        loop {
            let entry = self.entry(class).ok_or_else(|| ConfigError::Missing { class: class.clone() })?;
            let version = entry.opened.as_ref().map_err(|reason| {
                self.config_refused(class, Refusal::whole(format!("it is not loaded: {reason}")))
            })?;
            let default = version.configured(config.as_deref().unwrap_or(&no_config()));
            if let Err(refusal) = &default
                && (config.is_some() || self.used_as(class).is_some())
            {
                return Err(self.config_refused(class, refusal.clone()));
            }

            let had = entry.trial.as_ref().and_then(OnTrial::default);
            let mut books = self.books.lock();
            let now = self.entry(class);
            let same = now.as_ref().and_then(|now| now.opened.as_ref().ok());
            // Another version has come meanwhile, and has not been asked.
            let (Some(now), true) = (&now, same.is_some_and(|same| Arc::ptr_eq(same, version))) else {
                continue;
            };
            if let Some(door) = &self.door {
                match &config {
                    Some(config) => door.store.write_config(class, config),
                    None => door.store.remove_config(class),
                }
                .map_err(ConfigError::Store)?;
            }
            match &config {
                Some(config) => books.configs.insert(class.clone(), Arc::clone(config)),
                None => books.configs.remove(class),
            };
            let trial = now.trial.as_ref().map(|trial| trial.with_config(config.clone(), had));
            let entry = Entry { default, config, last_error: None, trial, ..Entry::clone(now) };
            self.swap(books, |table| table.put(entry));
            info!(%class, "extension configured");
            return Ok(());
        }
    }

    fn config_refused(&self, class: &ClassName, refusal: Refusal) -> ConfigError {
        let Refusal { path, reason, .. } = refusal;
        let error = ConfigError::Refused { class: class.clone(), path, reason };
        self.note_error(&self.books.lock(), class, &error.to_string());
        error
    }

    pub(super) fn set_by_file(&self, class: &ClassName) -> bool {
        self.door.as_ref().is_some_and(|door| door.options.config_of(class).is_some())
    }
}

/// The key under which the configuration file configures a class.
pub(super) fn config_key(class: &ClassName) -> String {
    format!("extensions.{:?}.config", class.as_str())
}
