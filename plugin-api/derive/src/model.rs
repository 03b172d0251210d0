//! What the author wrote: the parts of it that a configuration is made of.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::{Attribute, Data, DeriveInput, Error, Expr, ExprLit, Fields, GenericArgument, Ident, Lit};
use syn::{Meta, PathArguments, Result, Type};

/// A type that derives `Config`.
pub(crate) struct Model {
    pub(crate) name: Ident,
    pub(crate) doc: Option<String>,
    pub(crate) shape: Shape,
}

/// Which kind of type.
pub(crate) enum Shape {
    Struct(Vec<Field>),
    Enum(Vec<Variant>),
}

/// A field of a struct.
pub(crate) struct Field {
    pub(crate) name: Ident,
    pub(crate) ty: Type,
    pub(crate) doc: Option<String>,
    pub(crate) default: Option<Default>,
}

/// A variant of an enum.
pub(crate) struct Variant {
    pub(crate) name: Ident,
}

/// What a field is when it is left out.
pub(crate) enum Default {
    /// What its type has for that.
    OfType,
    /// This.
    Value(Expr),
}

impl Model {
    pub(crate) fn read(input: &DeriveInput) -> Result<Self> {
        if let Some(parameter) = input.generics.params.first() {
            return Err(Error::new_spanned(parameter, "a configuration has no generic parameters"));
        }
        let shape = match &input.data {
            Data::Struct(data) => Shape::Struct(read_fields(&data.fields)?),
            Data::Enum(data) => Shape::Enum(data.variants.iter().map(read_variant).collect::<Result<_>>()?),
            Data::Union(data) => {
                return Err(Error::new_spanned(data.union_token, "a configuration is a struct"));
            }
        };
        Ok(Self { name: input.ident.clone(), doc: read_doc(&input.attrs), shape })
    }
}

fn read_fields(fields: &Fields) -> Result<Vec<Field>> {
    match fields {
        Fields::Named(named) => named.named.iter().map(read_field).collect(),
        Fields::Unit => Ok(Vec::new()),
        Fields::Unnamed(unnamed) => {
            Err(Error::new_spanned(unnamed, "a configuration has named fields: they are its keys"))
        }
    }
}

fn read_field(field: &syn::Field) -> Result<Field> {
    let mut default = None;
    for attribute in field.attrs.iter().filter(|a| a.path().is_ident("config")) {
        attribute.parse_nested_meta(|meta| {
            if !meta.path.is_ident("default") {
                return Err(meta.error("expected `default` or `default = value`"));
            }
            default = Some(match meta.value() {
                Ok(value) => Default::Value(value.parse()?),
                // There is no `= value`.
                Err(_) => Default::OfType,
            });
            Ok(())
        })?;
    }
    let name = field.ident.clone().expect("named, as its caller has seen");
    Ok(Field { name, ty: field.ty.clone(), doc: read_doc(&field.attrs), default })
}

fn read_variant(variant: &syn::Variant) -> Result<Variant> {
    if !matches!(variant.fields, Fields::Unit) {
        return Err(Error::new_spanned(&variant.fields, "a variant of a configuration has no values"));
    }
    Ok(Variant { name: variant.ident.clone() })
}

/// The doc comment, as one paragraph.
fn read_doc(attributes: &[Attribute]) -> Option<String> {
    let lines = attributes.iter().filter_map(|attribute| match &attribute.meta {
        Meta::NameValue(pair) if pair.path.is_ident("doc") => match &pair.value {
            Expr::Lit(ExprLit { lit: Lit::Str(line), .. }) => Some(line.value().trim().to_owned()),
            _ => None,
        },
        Meta::NameValue(_) | Meta::Path(_) | Meta::List(_) => None,
    });
    let doc = lines.filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" ");
    Some(doc).filter(|doc| !doc.is_empty())
}

impl Field {
    /// The key in the JSON object.
    pub(crate) fn key(&self) -> String {
        self.name.to_string().trim_start_matches("r#").to_owned()
    }

    /// Whether it may be left out without a default.
    pub(crate) fn is_option(&self) -> bool {
        argument_of(&self.ty, &["Option"]).is_some()
    }

    /// The function that gives its default.
    pub(crate) fn default_function(&self) -> Ident {
        format_ident!("default_{}", self.key())
    }
}

impl Variant {
    /// Its name in JSON, as serde makes it.
    pub(crate) fn spelled(&self) -> String {
        let mut spelled = String::new();
        for c in self.name.to_string().chars() {
            if c.is_uppercase() && !spelled.is_empty() {
                spelled.push('-');
            }
            spelled.extend(c.to_lowercase());
        }
        spelled
    }
}

impl Default {
    /// An expression of the field's type.
    pub(crate) fn value(&self) -> TokenStream {
        match self {
            Self::OfType => quote! { ::core::default::Default::default() },
            // So that `default = "x"` does for a `String`.
            Self::Value(Expr::Lit(ExprLit { lit: Lit::Str(text), .. })) => {
                quote! { ::core::convert::Into::into(#text) }
            }
            Self::Value(value) => quote! { #value },
        }
    }
}

/// The last type argument of a type that is named one of `names`: `T` of `Option<T>`.
pub(crate) fn argument_of<'t>(ty: &'t Type, names: &[&str]) -> Option<&'t Type> {
    let Type::Path(path) = ty else { return None };
    let last = path.path.segments.last()?;
    if !names.iter().any(|name| last.ident == name) {
        return None;
    }
    let PathArguments::AngleBracketed(arguments) = &last.arguments else { return None };
    arguments.args.iter().rev().find_map(|argument| match argument {
        GenericArgument::Type(ty) => Some(ty),
        _ => None,
    })
}
