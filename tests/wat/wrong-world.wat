;; A component, but none of ours: it exports something else.
(component
  (core module $m (func (export "add") (param i32 i32) (result i32) (i32.add (local.get 0) (local.get 1))))
  (core instance $i (instantiate $m))
  (func $add (param "a" u32) (param "b" u32) (result u32) (canon lift (core func $i "add")))
  (instance $sums (export "add" (func $add)))
  (export "acme:calculator/sums@1.0.0" (instance $sums)))
