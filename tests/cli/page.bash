# For the scripts that write pages (lib.bash comes first): is a page well-formed, and does it look right in a browser?
#
#   page FILE VERDICT    the page is well-formed XML, has the verdict and runs nothing; pages_seen measures it, too
#   pages_seen           in frames of 400, 1280 and 1600 pixels, light and dark, and on paper of 700 pixels: nothing is
#                        wider than its frame, no text is smaller than 12 pixels, and every text has a contrast of 4.5
#                        to its ground
#   browse FILE          the page as it stands in the browser when all is loaded
#
# A script of the outer page measures, since a page itself has no script. A page that breaks every rule is measured, too.
seen=()

page() {
    local script
    check "$1 lacks the verdict $2" grep -qF -- "data-verdict=\"$2\"" "$1"
    script=$(grep -ciE '<script|<img|<link|https?://[^ ]*"|url\(' "$1")
    check "$1 loads or runs something" test "$script" = 0
    if command -v xmllint > /dev/null; then
        check "$1 is not well-formed: $(xmllint --noout "$1" 2>&1 | head -c 300)" xmllint --noout "$1" 2> /dev/null
    fi
    seen+=("$1")
}

frame() { # frame NAME WIDTH FILE
    printf '<iframe name="%s-%s" width="%s" height="700" srcdoc="' "$1" "$2" "$2"
    sed 's/&/\&amp;/g; s/"/\&quot;/g' "$3"
    printf '"></iframe>\n'
}

browse() {
    nice -n 10 timeout 120 chromium --headless --no-sandbox --disable-gpu --disable-dev-shm-usage \
        --disable-background-networking --user-data-dir="$work/profile" --dump-dom "file://$1" 2> "$work/browser"
}

# the page as in a browser that asks for dark pages
dark() { sed 's/@media screen and (prefers-color-scheme:dark)/@media all/' "$1"; }

# the page as it is printed
paper() { sed 's/@media print/@media all/; s/@media screen[^{]*/@media not all/' "$1"; }

# SCHEME-WIDTH of each frame
looks=({light,dark}-{400,1280,1600} paper-700)

page_frames() {
    local i look
    echo '<!DOCTYPE html><meta charset="utf-8"><body>'
    for i in "${!seen[@]}"; do
        cp "${seen[$i]}" "$work/light.html"
        dark "${seen[$i]}" > "$work/dark.html"
        paper "${seen[$i]}" > "$work/paper.html"
        for look in "${looks[@]}"; do frame "$i-${look%-*}" "${look#*-}" "$work/${look%-*}.html"; done
    done
    sed 's/<h1>/<h1 style="width:1500px;font-size:9px;color:#888">/' "${seen[0]}" > "$work/wrong.html"
    frame wrong 400 "$work/wrong.html"
    cat << 'END'
<pre id="found"></pre><script>
const numbers = c => c.match(/[\d.]+/g).map(Number);
const light = c => {
  const [r, g, b] = c.map(x => (x /= 255) <= 0.03928 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const ground = e => {
  for (; e; e = e.parentElement) {
    const c = numbers(getComputedStyle(e).backgroundColor);
    if (c.length < 4 || c[3] === 1) return c;
  }
  return [255, 255, 255];
};
onload = () => {
  let lines = "";
  for (const f of document.querySelectorAll("iframe")) {
    const d = f.contentDocument;
    let contrast = 99, size = 99, texts = 0;
    for (const e of d.querySelectorAll("body *")) {
      if (!e.getClientRects().length || e.closest("svg")) continue;
      if (![...e.childNodes].some(n => n.nodeType === 3 && n.data.trim())) continue;
      const s = getComputedStyle(e), a = light(numbers(s.color)), b = light(ground(e));
      contrast = Math.min(contrast, (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05));
      size = Math.min(size, parseFloat(s.fontSize));
      texts++;
    }
    lines += `${f.name} fits=${d.documentElement.scrollWidth <= f.clientWidth} texts=${texts > 20} ` +
      `scripts=${d.scripts.length} size=${size >= 12} contrast=${contrast >= 4.5} ${size} ${contrast.toFixed(2)}\n`;
  }
  document.getElementById("found").textContent = lines;
};
</script>
END
}

pages_seen() {
    local i look name
    if ! command -v chromium > /dev/null; then
        skip "pages in a browser" "no chromium: tools/deps browser"
        return
    fi
    page_frames > "$work/page_frames.html"
    browse "$work/page_frames.html" | sed -n '/<pre id="found">/,/<\/pre>/p' | sed 's/.*<pre id="found">//' > "$work/measured"
    cp "$work/measured" "$out"
    for i in "${!seen[@]}"; do
        for look in "${looks[@]}"; do
            name=$(basename "${seen[$i]}") line=$(grep "^$i-$look " "$work/measured")
            check "$name, $look: $line" \
                grep -q "^$i-$look fits=true texts=true scripts=0 size=true contrast=true " "$work/measured"
        done
    done
    check "a wrong page is not seen" grep -q '^wrong-400 fits=false .* size=false contrast=false ' "$work/measured"
}
