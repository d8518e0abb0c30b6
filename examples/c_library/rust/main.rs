fn main() -> Result<(), step::Error> {
    let (mut state, x, mut twice) = ([0f32; 4], [1f32, 2.0, 3.0], [0f32; 4]);
    let mut workspace = step::Workspace::new();
    for _ in 0..3 {
        step::call(&mut state, &x, &mut twice, &mut workspace)?;
        println!("{:.2} {:.2}", state[0], twice[3]);
    }
    let short = step::call(&mut state, &x[..2], &mut twice, &mut workspace);
    assert_eq!(short.unwrap_err().to_string(), "x has 2 elements, 3 are needed");
    Ok(())
}
