//! The JSON Schema of a type, as an expression: constants of other types, joined with text.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::{Expr, ExprLit, Lit, Type};

use crate::model::{Default, Field, Model, Shape, argument_of};

/// Text, and constants that only the compiler knows.
struct Parts(Vec<TokenStream>);

impl Parts {
    fn text(&mut self, text: &str) {
        self.0.push(text.to_token_stream());
    }

    fn string(&mut self, text: &str) {
        self.text(&json_string(text));
    }

    /// The schema of a type, but for the brace that closes it.
    fn open(&mut self, ty: &Type) {
        if let Some(item) = argument_of(ty, &["Option"]) {
            self.open(item);
        } else if let Some(item) = argument_of(ty, &["Vec"]) {
            self.text(r#"{"type":"array","items":"#);
            self.open(item);
            self.text("}");
        } else if let Some(item) = argument_of(ty, &["BTreeMap", "HashMap"]) {
            self.text(r#"{"type":"object","additionalProperties":"#);
            self.open(item);
            self.text("}");
        } else {
            self.0.push(quote! {
                ::weir_plugin_api::private::open(<#ty as ::weir_plugin_api::private::Schema>::JSON)
            });
        }
    }

    fn field(&mut self, field: &Field) {
        self.string(&field.key());
        self.text(":");
        self.open(&field.ty);
        if let Some(doc) = &field.doc {
            self.text(r#","description":"#);
            self.string(doc);
        }
        if let Some(default) = field.default.as_ref().and_then(literal) {
            self.text(r#","default":"#);
            self.text(&default);
        }
        self.text("}");
    }
}

/// The schema of a type, as a constant expression of type `&'static str`.
pub(crate) fn of(model: &Model) -> TokenStream {
    let mut parts = Parts(Vec::new());
    match &model.shape {
        Shape::Struct(fields) => {
            parts.text(r#"{"type":"object","additionalProperties":false,"properties":{"#);
            for (i, field) in fields.iter().enumerate() {
                if i > 0 {
                    parts.text(",");
                }
                parts.field(field);
            }
            let required = fields.iter().filter(|f| f.default.is_none() && !f.is_option());
            let required: Vec<String> = required.map(|f| json_string(&f.key())).collect();
            parts.text(&format!("}},\"required\":[{}]", required.join(",")));
        }
        Shape::Enum(variants) => {
            let spelled: Vec<String> = variants.iter().map(|v| json_string(&v.spelled())).collect();
            parts.text(&format!("{{\"type\":\"string\",\"enum\":[{}]", spelled.join(",")));
        }
    }
    if let Some(doc) = &model.doc {
        parts.text(r#","description":"#);
        parts.string(doc);
    }
    parts.text("}");
    let parts = parts.0;
    quote! {{
        const PARTS: &[&str] = &[#(#parts),*];
        const JOINED: [u8; ::weir_plugin_api::private::joined_len(PARTS)] =
            ::weir_plugin_api::private::joined(PARTS);
        ::weir_plugin_api::private::as_text(&JOINED)
    }}
}

/// A default as JSON, if it is written as a literal; others are not known here.
fn literal(default: &Default) -> Option<String> {
    let Default::Value(value) = default else { return None };
    match value {
        Expr::Lit(ExprLit { lit, .. }) => match lit {
            Lit::Str(text) => Some(json_string(&text.value())),
            Lit::Int(number) => Some(number.base10_digits().to_owned()),
            Lit::Float(number) => Some(number.base10_digits().to_owned()),
            Lit::Bool(flag) => Some(flag.value.to_string()),
            _ => None,
        },
        Expr::Unary(unary) if matches!(unary.op, syn::UnOp::Neg(_)) => match &*unary.expr {
            Expr::Lit(ExprLit { lit: Lit::Int(number), .. }) => Some(format!("-{}", number.base10_digits())),
            Expr::Lit(ExprLit { lit: Lit::Float(number), .. }) => {
                Some(format!("-{}", number.base10_digits()))
            }
            _ => None,
        },
        _ => None,
    }
}

fn json_string(text: &str) -> String {
    let mut json = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => json.extend(['\\', c]),
            c if c.is_control() => json.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => json.push(c),
        }
    }
    json.push('"');
    json
}
