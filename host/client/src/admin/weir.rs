//! weir's own admin calls.

use bytes::Bytes;
use reqwest::Method;
use serde_json::Value;

use super::lines::Lines;
use super::model::{Binding, Extension, LogLine, RefusedFile, Registered, RolledBack};
use super::{Admin, AdminError, REGISTER_TIMEOUT};

/// The path of extensions.
const EXTENSIONS: [&str; 3] = ["weir", "v1", "extensions"];

impl Admin {
    /// Whether the server is ready to serve.
    ///
    /// # Errors
    /// 503: it is not. See [`AdminError`].
    pub async fn ready(&self) -> Result<(), AdminError> {
        self.done(self.call(Method::GET, &["weir", "v1", "ready"], &[])).await
    }

    /// All extensions.
    ///
    /// # Errors
    /// See [`AdminError`].
    pub async fn extensions(&self) -> Result<Vec<Extension>, AdminError> {
        self.answer(self.call(Method::GET, &EXTENSIONS, &[])).await
    }

    /// One extension.
    ///
    /// # Errors
    /// 404: there is none of that class. See [`AdminError`].
    pub async fn extension(&self, class: &str) -> Result<Extension, AdminError> {
        self.answer(self.call(Method::GET, &extension(class), &[])).await
    }

    /// The files of the drop folder that are not in force, and why.
    ///
    /// # Errors
    /// See [`AdminError`].
    pub async fn refused_files(&self) -> Result<Vec<RefusedFile>, AdminError> {
        self.answer(self.call(Method::GET, &["weir", "v1", "refused"], &[])).await
    }

    /// Registers a component, and the configuration that is to go with it: both or neither. With `force`, also
    /// one that was taken back before. Returns when it is in force.
    ///
    /// # Errors
    /// 401: a token is needed; 409, 413, 415, 422: it is refused, and the one in force stays. See
    /// [`AdminError`].
    pub async fn register(
        &self,
        class: &str,
        artifact: Bytes,
        config: Option<&Value>,
        force: bool,
    ) -> Result<Registered, AdminError> {
        let mut call = self.call(Method::PUT, &extension(class), forced(force));
        call.timeout = REGISTER_TIMEOUT;
        call.headers.push(("Content-Type", "application/wasm".to_owned()));
        if let Some(config) = config {
            call.headers.push(("X-Weir-Config", ascii(config)));
        }
        call.body = Some(artifact);
        self.answer(call).await
    }

    /// Removes an extension; with `force`, even if bindings use it.
    ///
    /// # Errors
    /// 404: there is none; 409: bindings use it. See [`AdminError`].
    pub async fn remove_extension(&self, class: &str, force: bool) -> Result<(), AdminError> {
        self.done(self.call(Method::DELETE, &extension(class), forced(force))).await
    }

    /// Goes back to the version before. The one that is in force is not taken again unless it is forced.
    ///
    /// # Errors
    /// 404: there is none of that class; 409: no version before is kept; 422: it cannot be used any more. See
    /// [`AdminError`].
    pub async fn roll_back_extension(&self, class: &str) -> Result<RolledBack, AdminError> {
        let [a, b, c] = EXTENSIONS;
        let mut call = self.call(Method::POST, &[a, b, c, class, "rollback"], &[]);
        call.timeout = REGISTER_TIMEOUT;
        self.answer(call).await
    }

    /// The last lines that a class has logged, at most `n`; with `follow`, and those that it logs from then
    /// on, until the server ends it.
    ///
    /// # Errors
    /// 404: there is none of that class; 503: too many follow already. See [`AdminError`].
    pub async fn extension_logs(
        &self,
        class: &str,
        n: usize,
        follow: bool,
    ) -> Result<Lines<LogLine>, AdminError> {
        let [a, b, c, class] = extension(class);
        let (n, follow) = (n.to_string(), follow.to_string());
        let call = self.call(Method::GET, &[a, b, c, class, "logs"], &[("lines", &n), ("follow", &follow)]);
        self.lines(call).await
    }

    /// The configuration of a class.
    ///
    /// # Errors
    /// 404: there is none of that class. See [`AdminError`].
    pub async fn extension_config(&self, class: &str) -> Result<Value, AdminError> {
        self.answer(self.call(Method::GET, &config(class), &[])).await
    }

    /// Sets the configuration of a class.
    ///
    /// # Errors
    /// 409: the configuration file sets it; 422: the extension refuses it. See [`AdminError`].
    pub async fn set_extension_config(&self, class: &str, value: &Value) -> Result<(), AdminError> {
        self.done(self.call(Method::PUT, &config(class), &[]).json(value)).await
    }

    /// Takes the configuration of a class back.
    ///
    /// # Errors
    /// 409: the configuration file sets it. See [`AdminError`].
    pub async fn remove_extension_config(&self, class: &str) -> Result<(), AdminError> {
        self.done(self.call(Method::DELETE, &config(class), &[])).await
    }

    /// All bindings.
    ///
    /// # Errors
    /// See [`AdminError`].
    pub async fn bindings(&self) -> Result<Vec<Binding>, AdminError> {
        self.answer(self.call(Method::GET, &["weir", "v1", "bindings"], &[])).await
    }

    /// Sets the binding of its topic or pattern and its subscription.
    ///
    /// # Errors
    /// 409: the configuration file sets it; 422: it is none. See [`AdminError`].
    pub async fn put_binding(&self, binding: &Binding) -> Result<(), AdminError> {
        self.done(self.call(Method::PUT, &["weir", "v1", "bindings"], &[]).json(binding)).await
    }

    /// Removes the binding of the same topic or pattern and the same subscription.
    ///
    /// # Errors
    /// 404: there is none; 409: the configuration file sets it. See [`AdminError`].
    pub async fn remove_binding(&self, binding: &Binding) -> Result<(), AdminError> {
        let named = [
            ("topic", &binding.topic),
            ("pattern", &binding.pattern),
            ("subscription", &binding.subscription),
        ];
        let query: Vec<(&str, &str)> =
            named.into_iter().filter_map(|(name, value)| Some((name, value.as_deref()?))).collect();
        self.done(self.call(Method::DELETE, &["weir", "v1", "bindings"], &query)).await
    }
}

/// JSON that may stand in a header: what is not ASCII can only be in texts, where JSON has an escape for it.
fn ascii(json: &Value) -> String {
    let mut text = String::new();
    for c in json.to_string().chars() {
        if c.is_ascii() && c != '\x7f' {
            text.push(c);
        } else {
            for unit in c.encode_utf16(&mut [0; 2]) {
                text.push_str(&format!("\\u{unit:04x}"));
            }
        }
    }
    text
}

fn forced(force: bool) -> &'static [(&'static str, &'static str)] {
    if force { &[("force", "true")] } else { &[] }
}

fn extension(class: &str) -> [&str; 4] {
    let [a, b, c] = EXTENSIONS;
    [a, b, c, class]
}

fn config(class: &str) -> [&str; 5] {
    let [a, b, c] = EXTENSIONS;
    [a, b, c, class, "config"]
}
