  legend.innerHTML = `<span class="given">blue</span> is given, black is already final, grey is not,
    <span class="changed">shaded</span> has just changed.`;
  legend.prepend(data.name + ": ");

  function build(sample) {
    const figure = document.createElement("figure"), text = document.createElement("div");
    const caption = document.createElement("figcaption"), given = new Set(sample.given), cells = [];
    text.className = "text";
    for (let i = 0; i < sample.end; i++) {
      const cell = document.createElement("span");
      cell.classList.toggle("given", given.has(i));
      cells.push(cell);
      text.append(cell);
    }
    caption.textContent = "seed " + sample.seed;
    figure.append(caption, text);
    views.append(figure);
    return { frames: sample.frames, cells };
  }

  const texts = data.samples.map(build);

  function draw(number) {
    for (const { frames, cells } of texts) {
      const now = frames[number], before = frames[Math.max(number - 1, 0)], final = frames.at(-1);
      cells.forEach((cell, i) => {
        cell.textContent = data.words[now[i]];
        cell.classList.toggle("settled", now[i] === final[i]);
        cell.classList.toggle("changed", now[i] !== before[i]);
      });
    }
  }

  return { frames: data.steps.length, draw, step: number => data.steps[number] };
