//! Products on one rank. Those on several are in `isochron-tests`.

use isochron_devices::{BlasChoice, View, ViewMut};
use isochron_hierarchy::balance::BalanceConfig;
use isochron_hierarchy::problem::Split;
use num_complex::Complex64;

use super::*;
use crate::comm::LocalComm;
use crate::comm::settings::describe_differences;
use crate::matrix::redistribute::Moved;
use crate::matrix::{BlockList, Op, Order, SpreadError};
use crate::plan::{PartOfK, Problem};

fn session() -> Session {
    Session::builder().blas(BlasChoice::Embedded).build(LocalComm::new()).unwrap()
}

/// Whole numbers with an imaginary part, so that a conjugate is seen.
fn element(row: usize, col: usize, seed: usize) -> Complex64 {
    let number = |salt: usize| ((row * 7 + col * 13 + seed * 5 + salt * 3) % 11) as f64 - 5.0;
    Complex64::new(number(0), number(1))
}

/// A matrix in memory with a gap after each line.
struct Stock<T> {
    on: Distribution,
    data: Vec<T>,
    ld: usize,
}

impl<T: Element> Stock<T> {
    fn new((rows, cols): (usize, usize), order: Order, seed: usize) -> Self {
        let on = Distribution::on_one(rows, cols, 0, 1).unwrap();
        let (on, along, lines) = match order {
            Order::Columns => (on, rows, cols),
            Order::Rows => (on.row_major(), cols, rows),
        };
        let ld = along + 2;
        let mut data = vec![T::of(Complex64::new(-77.0, 0.0)); ld * lines];
        for (row, col) in (0..rows).flat_map(|row| (0..cols).map(move |col| (row, col))) {
            data[order.index(row, col, ld)] = T::of(element(row, col, seed));
        }
        Self { on, data, ld }
    }

    fn at(&self, row: usize, col: usize) -> T {
        self.data[self.on.order().index(row, col, self.ld)]
    }
}

fn apply<T: Element>(x: &Stock<T>, op: Op, row: usize, col: usize) -> T {
    match op {
        Op::N => x.at(row, col),
        Op::T => x.at(col, row),
        Op::C => x.at(col, row).conj(),
    }
}

/// Multiplies twice and compares every element and every gap. Returns the matrices that were used in place.
fn multiply<T: Element>(session: &mut Session, ops: [Op; 2], orders: [Order; 3]) -> [bool; 3] {
    let (m, n, k) = (9, 7, 5);
    let [a, b] = [((m, k), 0), ((k, n), 1)].map(|((rows, cols), side)| {
        let shape = if ops[side].transposes() { (cols, rows) } else { (rows, cols) };
        Stock::<T>::new(shape, orders[side], side)
    });
    let mut c = Stock::<T>::new((m, n), orders[2], 2);
    let config = ProductConfig { ops, block: Some(3), ..ProductConfig::default() };
    let on = [&a.on, &b.on, &c.on].map(Distribution::clone);
    let of = (on.each_ref(), config);
    let mut product: Product<T> = session.prepare(of, RunConfig::default()).unwrap();
    let two = T::ONE + T::ONE;
    let mut in_place = [true; 3];
    for (alpha, beta) in [(two, -T::ONE), (T::ONE, T::ZERO), (T::ZERO, two)] {
        let mut expected = c.data.clone();
        for (i, j) in (0..m).flat_map(|i| (0..n).map(move |j| (i, j))) {
            let sum = (0..k)
                .map(|l| apply(&a, ops[0], i, l) * apply(&b, ops[1], l, j))
                .fold(T::ZERO, |sum, term| sum + term);
            expected[orders[2].index(i, j, c.ld)] = alpha * sum + beta * c.at(i, j);
        }
        let scalars = Scalars { alpha, beta };
        let run = product.run(
            session,
            scalars,
            Factors::of((&a.data, a.ld), (&b.data, b.ld)),
            (&mut c.data, c.ld),
        );
        in_place = run.unwrap().in_place;
        assert_eq!(c.data, expected, "{ops:?} {orders:?}");
    }
    in_place
}

#[test]
fn every_order_and_operation_is_right_and_real_matrices_stay_in_place() {
    let mut session = session();
    let orders = [Order::Columns, Order::Rows];
    let ops = [Op::N, Op::T, Op::C];
    for number in 0..72 {
        let orders = [number % 2, number / 2 % 2, number / 4 % 2].map(|index| orders[index]);
        let ops = [number / 8 % 3, number / 24].map(|index| ops[index]);
        assert_eq!(multiply::<f64>(&mut session, ops, orders), [true; 3]);
        let complex = multiply::<Complex64>(&mut session, ops, orders);
        let is_crossed = |side: usize| ops[side] == Op::C && orders[side] != orders[2];
        let moves = is_crossed(0) || is_crossed(1);
        assert_eq!(complex != [true; 3], moves, "{ops:?} {orders:?}");
    }
}

/// A 9×9 matrix of whole numbers in memory of this order, without gaps.
fn make_square(order: Order) -> Vec<f64> {
    let mut array = vec![0.0; 81];
    for (row, col) in (0..9).flat_map(|row| (0..9).map(move |col| (row, col))) {
        array[order.index(row, col, 9)] = element(row, col, 4).re;
    }
    array
}

fn view_square(array: &mut [f64], order: Order) -> ViewMut<'_, f64> {
    match order {
        Order::Columns => ViewMut::new(array, 9, 9, 9),
        Order::Rows => ViewMut::by_rows(array, 9, 9, 9),
    }
}

/// Returns the distribution of a matrix on the only rank.
fn on_one_in(rows: usize, cols: usize, order: Order) -> Distribution {
    let on = Distribution::on_one(rows, cols, 0, 1).unwrap();
    match order {
        Order::Columns => on,
        Order::Rows => on.row_major(),
    }
}

/// The update of a factorization: all three matrices are parts of one array, and lines of one lie between those of another.
#[test]
fn parts_of_one_array_are_used_where_they_lie() {
    let mut session = session();
    for order in [Order::Columns, Order::Rows] {
        let mut array = make_square(order);
        let mut expected = array.clone();
        for (row, col) in (3..9).flat_map(|row| (3..9).map(move |col| (row, col))) {
            for k in 0..3 {
                expected[order.index(row, col, 9)] -=
                    array[order.index(row, k, 9)] * array[order.index(k, col, 9)];
            }
        }
        let (top, bottom) = view_square(&mut array, order).split_at_row(3);
        let (_, b) = top.split_at_col(3);
        let (a, c) = bottom.split_at_col(3);
        let on = [(6, 3), (3, 6), (6, 6)].map(|(rows, cols)| on_one_in(rows, cols, order));
        let scalars = Scalars { alpha: -1.0, beta: 1.0 };
        let factors = Factors::of(a.rb(), b.rb());
        let run = session.gemm(on.each_ref(), scalars, factors, c).unwrap();
        assert_eq!((run.in_place, run.moved), ([true; 3], Moved::default()));
        assert_eq!(array, expected, "{order:?}");
    }
}

#[test]
fn blocks_of_c_lie_between_each_other_in_one_array() {
    let mut session = session();
    let blocks = BlockList { row_cuts: vec![0, 4, 9], col_cuts: vec![0, 5, 9], owners: vec![0; 4] };
    let (a, b) = ([1.0; 18], [2.0; 18]);
    for order in [Order::Columns, Order::Rows] {
        let mut array = make_square(order);
        let expected: Vec<f64> = array.iter().map(|value| value + 4.0).collect();
        let on_c = Distribution::of_blocks(&blocks, 1).unwrap();
        let on_c = match order {
            Order::Columns => on_c,
            Order::Rows => on_c.row_major(),
        };
        let on = [on_one_in(9, 2, order), on_one_in(2, 9, order), on_c];
        let (left, right) = view_square(&mut array, order).split_at_col(5);
        let c = [left, right].map(|half| half.split_at_row(4));
        let c: Vec<_> = c.into_iter().flat_map(|(upper, lower)| [upper, lower]).collect();
        let lds = match order {
            Order::Columns => [9, 2],
            Order::Rows => [2, 9],
        };
        let factors = Factors::of((&a, lds[0]), (&b, lds[1]));
        let of = on.each_ref();
        session.gemm(of, Scalars::UPDATE, factors, c).unwrap();
        assert_eq!(array, expected, "{order:?}");
    }
}

#[test]
fn views_that_do_not_fit_are_refused_with_the_matrix_and_the_reason() {
    let mut session = session();
    let on = [(4, 3), (3, 4), (4, 4)].map(|(rows, cols)| on_one_in(rows, cols, Order::Rows));
    let (data, mut c) = ([0.0; 12], [0.0; 16]);
    for (a, reason) in [
        (View::by_rows(&data, 3, 4, 4), "A: a view of 3×4, where"),
        (View::new(&data, 4, 3, 4), "A: a view that is not row-major"),
    ] {
        let factors = Factors::of(a, View::by_rows(&data, 3, 4, 4));
        let text = session.gemm(on.each_ref(), Scalars::PRODUCT, factors, (&mut c, 4));
        let text = text.unwrap_err().to_string();
        assert!(text.contains(reason), "{text}");
    }
}

#[test]
fn arguments_that_do_not_fit_are_refused_with_the_matrix_and_the_reason() {
    let mut session = session();
    let on = Distribution::on_one(4, 4, 0, 1).unwrap();
    let wide = Distribution::on_one(4, 5, 0, 1).unwrap();
    let runs = RunConfig::default();
    let prepared = session.prepare::<f64>([&on, &wide, &on], runs);
    let text = prepared.unwrap_err().to_string();
    assert!(text.contains("op(B) is 4×5, and C is 4×4"), "{text}");
    let of_two = Distribution::on_one(4, 4, 0, 2).unwrap();
    let prepared = session.prepare::<f64>([&of_two, &on, &on], runs);
    assert!(matches!(prepared, Err(Error::Spread(SpreadError::Ranks { .. }))));
    let none = ProductConfig { block: Some(0), ..ProductConfig::default() };
    let prepared = session.prepare::<f64>(([&on; 3], none), runs);
    assert!(matches!(prepared, Err(Error::Parameter { name: "block", .. })));
    let mut product: Product<f64> = session.prepare([&on; 3], runs).unwrap();
    let (a, mut c) = (vec![0.0; 16], vec![0.0; 16]);
    let text = product
        .run(&mut session, Scalars::PRODUCT, Factors::of((&a, 4), (&a[..15], 4)), (&mut c, 4))
        .unwrap_err()
        .to_string();
    assert!(text.contains("the memory of B") && text.contains("of 15"), "{text}");
    let factors = Factors::of((&a, 4), (&a, 4));
    let low = product.run(&mut session, Scalars::PRODUCT, factors, (&mut c, 3));
    assert!(low.unwrap_err().to_string().contains("the memory of C"));
    let other = session.prepare::<f32>(product.plan(), runs);
    assert!(other.unwrap_err().to_string().contains("matrices of f64"));
}

#[test]
fn a_plan_in_parts_of_k_is_no_plan_of_whole_factors() {
    let mut session = Session::builder().build(LocalComm::new()).unwrap();
    let problem = Problem::new(4, 4, 4, 2).unwrap().with_panel(2).unwrap();
    let plan = session.plan(problem, &BalanceConfig::default()).unwrap();
    let parts = plan.with_k_parts(2).unwrap();
    let mut product = session.prepare(parts, RunConfig::default()).unwrap();
    let (a, mut c) = ([1.0; 16], [0.0; 16]);
    let factors = Factors::of((&a, 4), (&a, 4));
    let run = product.run(&mut session, Scalars::PRODUCT, factors, (&mut c, 4));
    assert!(run.unwrap_err().to_string().contains("2 parts of k"));
    assert_eq!(c, [0.0; 16]);
}

/// Returns a configuration in which each setting has another value than by default, as a user would write it.
fn change_all() -> ProductConfig {
    let changed = serde_json::json!({
        "strategy": "fpm", "epsilon": 0.5, "max_iterations": 3, "steps": 7, "reps": 9, "start": "even", "fit": "cpm",
        "partitioner": "npa", "layout": "kl",
        "adaptive": {
            "granule": 2, "growth": 3.5, "growth_in_step": 4.5, "growth_before_fall": 5.5, "check_every": 6,
            "force_every": 77
        }
    });
    ProductConfig {
        ops: [Op::T, Op::C],
        block: Some(64),
        panel: Some(32),
        split: Split::K,
        balance: serde_json::from_value(changed).unwrap(),
    }
}

/// Each setting that differs is told alone, with both values as a user writes them.
#[test]
fn each_setting_that_differs_between_ranks_is_told_in_words() {
    let (plain, changed) = (ProductConfig::default().describe(), change_all().describe());
    assert_eq!(changed.len(), 19, "{changed:?}");
    for (name, value) in &changed {
        let mut other = plain.clone();
        assert_ne!(other.insert(name.clone(), value.clone()).as_ref(), Some(value));
        let text = describe_differences(&[plain.clone(), other]);
        let before = plain.get(name).map_or("not given", String::as_str);
        assert_eq!(text, format!("{name} is {before} on rank 0, {value} on rank 1"));
        let marks = ["{", "::", "(", "Some"];
        assert!(!marks.iter().any(|mark| text.contains(mark)), "{text}");
    }
    let text = describe_differences(&[plain, changed]);
    for words in [
        "ops is \"NN\" on rank 0, \"TC\" on rank 1",
        "block is not given on rank 0, 64 on rank 1",
        "split is \"auto\" on rank 0, \"k\" on rank 1",
        "strategy is \"adaptive\" on rank 0, \"fpm\" on rank 1",
        "epsilon is 0.05 on rank 0, 0.5 on rank 1",
        "adaptive.force_every is ",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
}

/// Returns a matrix of the runtime that holds this number.
fn filled(spread: Spread, value: f64) -> Matrix {
    let mut matrix = Matrix::zeros(spread, 0).unwrap();
    matrix.fill(|_, _| value);
    matrix
}

#[test]
fn a_product_of_a_plan_takes_memory_of_the_program_and_of_the_runtime() {
    let mut session = session();
    let problem = Problem::new(6, 4, 5, 2).unwrap();
    let plan = session.plan(problem, &BalanceConfig::default()).unwrap();
    let mut product: Product<f64> = session.prepare(&plan, RunConfig::default()).unwrap();
    let (a, b) = (filled(plan.a(), 2.0), filled(plan.b(), 3.0));
    let mut c = product.zeros(&mut session).unwrap();
    let factors = Factors::of(&a, &b);
    let run = product.run(&mut session, Scalars::PRODUCT, factors, &mut c);
    assert_eq!(run.unwrap().in_place, [true; 3]);
    assert!(c.columns().flatten().all(|&sum| sum == 30.0));
    let (own_a, mut own_c) = ([2.0; 30], [1.0; 24]);
    let factors = Factors::of((&own_a, 6), &b);
    let run = product.run(&mut session, Scalars::UPDATE, factors, (&mut own_c, 6));
    assert_eq!((run.unwrap().in_place, own_c), ([true; 3], [31.0; 24]));
}

#[test]
fn a_matrix_of_the_runtime_must_lie_where_the_plan_has_it() {
    let mut session = session();
    let on = Distribution::on_one(4, 4, 0, 1).unwrap();
    let matrix = filled(Spread::whole(4, 4), 1.0);
    let mut c = [0.0; 16];
    for (of, reason) in [
        (ProductOf::from([&on; 3]), "B is a matrix of the runtime"),
        (
            session
                .plan(Problem::new(4, 5, 4, 2).unwrap(), &BalanceConfig::default())
                .unwrap()
                .into(),
            "matrix B is not spread as the plan says",
        ),
    ] {
        let mut product: Product<f64> = session.prepare(of, RunConfig::default()).unwrap();
        let factors = Factors::of((&[1.0; 16], 4), &matrix);
        let run = product.run(&mut session, Scalars::PRODUCT, factors, (&mut c, 4));
        let text = run.unwrap_err().to_string();
        assert!(text.contains(reason), "{text}");
    }
}

#[test]
fn parts_of_k_are_refused_where_the_plan_may_be_another_products() {
    let mut session = session();
    let on = Distribution::on_one(4, 4, 0, 1).unwrap();
    let mut product: Product<f64> = session.prepare([&on; 3], RunConfig::default()).unwrap();
    let mut make = |part: &PartOfK| Ok((filled(part.a(), 1.0), filled(part.b(), 1.0)));
    let factors = Factors::made(&mut make);
    let run = product.run(&mut session, Scalars::PRODUCT, factors, (&mut [0.0; 16], 4));
    let text = run.unwrap_err().to_string();
    assert!(text.contains("are made in parts of k, and the product was prepared for"), "{text}");
}
