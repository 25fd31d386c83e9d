"""Answers made by hand: pairs that are equal and pairs that are not, reference first."""

EQUAL = {
    "fractions": r"""
        \frac{1}{2} ;; 0.5
        \frac{1}{2} ;; \dfrac12
        \frac{3}{4} ;; 3/4
        \frac{3}{4} ;; 0.75
        \frac{3}{4} ;; \tfrac{3}{4}
        -\frac{1}{2} ;; \frac{-1}{2}
        \frac{7}{2} ;; 3\frac{1}{2}
        \frac{2}{4} ;; \frac{1}{2}
        \frac{a}{b} ;; a/b
        -\frac{1}{x} ;; \frac{-1}{x}
        \frac{10}{1} ;; 10
        1 1/2 ;; 3/2
        \frac{3}{2} ;; 1 1/2
        \frac{1}{2} ;; \frac 1 2
    """,
    "roots and powers": r"""
        2\sqrt{3} ;; \sqrt{12}
        \sqrt{3} ;; \sqrt3
        \frac{\sqrt{3}}{3} ;; \frac{1}{\sqrt{3}}
        2^{10} ;; 1024
        3^{1/2} ;; \sqrt{3}
        \sqrt[3]{8} ;; 2
        2 ;; \gcd(4,6)
        5! ;; 120
        \binom{5}{2} ;; 10
    """,
    "algebra": r"""
        x^2+2x+1 ;; (x+1)^2
        3a+2b ;; 2b+3a
        y=2x+1 ;; 2x+1
        y=2x+1 ;; y = 1 + 2x
        x^2+y^2=1 ;; y^2+x^2=1
        1+2i ;; 2i+1
        \sin^2 x ;; 1-\cos^2 x
        \frac{\pi}{2} ;; \frac{1}{2}\pi
        x=5 ;; 5
        5 ;; x = 5
        2(x-3) ;; 2x-6
        y=x ;; x=y
        e^{2} ;; e^2
        2\pi ;; 2pi
        \frac{\pi}{3} ;; pi/3
        \ln 2 ;; ln(2)
        \ln 2 ;; ln2
        \log_2 8 ;; 3
        2 ;; 1+1=2
        \sqrt{2} ;; \sqrt{2} \approx 1.414
        2.5 ;; x \approx 2.5
        \frac{1}{2} ;; e = \frac{1}{2}
        3 ;; i = 3
    """,
    "intervals": r"""
        (1,2) ;; (1, 2)
        (1,2) ;; \left( 1,2 \right)
        [0.5,2) ;; \left[\frac{1}{2},2\right)
        x\le3 ;; (-\infty,3]
        (-\infty,3] ;; x \leq 3
        (-\infty,2)\cup(3,\infty) ;; (3,\infty)\cup(-\infty,2)
        [2,3] ;; 2\le x\le 3
        [1,2] ;; x \in [1,2]
        (-\infty,\infty) ;; (-\infty, +\infty)
        x \ge 5 ;; x>=5
        \infty ;; infinity
        (-\infty,3] ;; x<=3
    """,
    "sets and lists": r"""
        \{1,2\} ;; \{2,1\}
        1,2 ;; 2, 1
        1,2 ;; \{1, 2\}
        1,2 ;; 1 \text{ and } 2
        -2 \text{ or } -12 ;; -12, -2
        2, 3, \text{ and } 4 ;; 4, 3, 2
        \text{A,B,E} ;; A, B, E
        \text{H, E} ;; \text{E, H}
        \sqrt{2}, -\sqrt{2} ;; -\sqrt{2}, \sqrt{2}
        (0,5) ;; (0.0, 5)
        (1,2) ;; x=1, y=2
        (1,2) ;; y = 2, x = 1
        (3, \frac{\pi}{2}) ;; \left( 3, \pi/2 \right)
        12 ;; {12}
        \frac{1}{2} ;; {\frac{1}{2}}
    """,
    "units": r"""
        5 ;; 5\,\text{kg}\cdot\text{m}/\text{s}^2
        5 ;; 5\text{ mol}^{-1}
        5 ;; 5\text{ apples}=5
        5 ;; 5\text{ cm}=0.05\text{ m}
        2\sqrt{3} ;; 2\sqrt{3}\text{ cm}^2
        5\text{ cm} ;; 5
        5 ;; 5\text{cm}
        5 ;; 5 \, \mathrm{cm}
        5 ;; 5 cm
        5\text{ cm} ;; 5\text{ centimeters}
        20\text{ square units} ;; 20
        840\text{ square inches} ;; 840\text{ in}^2
        10\sqrt{2}\text{ feet} ;; 10\sqrt{2}
        \frac{11}{15}\text{ days} ;; 11/15
        7\text{ hours}. ;; 7
        382 \text{ dollars} ;; \$382
        5 ;; \$5.00
        15\text{ m/s} ;; 15
        15 ;; 15\text{ cm}^2
        5 ;; 5\text{ }
        60\text{ mph} ;; 60\text{ miles per hour}
        15\text{ km/h} ;; 15 km/h
        \$5 ;; 5\text{ dollars}
        \approx 8.24\text{ mph} ;; 8.24
        5 ;; 2+3=5\text{ m}
        5 ;; 5.0\text{ m}=5\text{ m}
        0.5 ;; 0.5=50\%
        \pi ;; 180^\circ=\pi
    """,
    "percent": r"""
        10\% ;; 10
        10 ;; 10\%
        0.1 ;; 10\%
        12.5\% ;; 12.50\%
        \frac{1}{4} ;; 25\%
        50\% ;; 50\text{ percent}
    """,
    "thousands": r"""
        1,000 ;; 1000
        1000 ;; 1{,}000
        112,\!875 ;; 112875
        1000000 ;; 1,000,000
        12\,500 ;; 12500
        -4,320 ;; -4320
        1,234.5 ;; 1234.5
        1234.5 ;; 1{,}234.5
        12500 ;; 12 500
    """,
    "degrees": r"""
        90^\circ ;; 90
        90 ;; 90^{\circ}
        140\text{ degrees} ;; 140^\circ
        22.5^\circ ;; 22.5
    """,
    "text": r"""
        \text{Tuesday} ;; Tuesday
        \text{Tuesday} ;; \text{tuesday}
        \text{(B)} ;; B
        \text{(B)} ;; \textbf{(B)}
        (\text{H}) ;; H
        \text{even} ;; \mathrm{even}
        \text{two lines} ;; \text{two  lines}
        \text{CBAD} ;; CBAD
        \text{ Monday} ;; Monday
        \text{even} ;; x = \text{even}
    """,
    "matrices": r"""
        \begin{pmatrix} 1 & 2 \\ 3 & 4 \end{pmatrix} ;; \begin{pmatrix}1&2\\3&4\end{pmatrix}
        \begin{pmatrix}1&2\\3&4\end{pmatrix} ;; \begin{bmatrix}1&2\\3&4\end{bmatrix}
        \begin{pmatrix}\frac12\\2\end{pmatrix} ;; \begin{pmatrix}0.5\\2\end{pmatrix}
        \begin{pmatrix}2+2\\0\end{pmatrix} ;; \begin{pmatrix}4\\0\end{pmatrix}
    """,
    "bases": r"""
        1011_2 ;; 1011_{2}
        \text{A5}_{11} ;; A5_{11}
        43_5. ;; 43_5
        11_{16} ;; 11_16
        11_8 ;; 11_{(8)}
        0.0011_{2} ;; 0.0011_2
        9 ;; 11_8 = 9
    """,
    "zeros": r"""
        34 ;; 034
        34 ;; 34.0
        1.6 ;; 1.60
        25 ;; 025
        0.5 ;; .5
        0 ;; -0
        10 ;; 10.
        7 ;; +7
    """,
    "plus or minus": r"""
        \pm 3 ;; 3,-3
        \pm 3 ;; \{-3,3\}
        x=\pm 3 ;; x=-3, x=3
        2\pm\sqrt{3} ;; 2+\sqrt{3},2-\sqrt{3}
    """,
    "decimals": r"""
        \frac{1}{3} ;; 0.\overline{3}
        0.1\overline{6} ;; \frac16
        4.5\times10^{33} ;; 4.5e33
        0.0063 ;; 6.3\times 10^{-3}
        6.3e-3 ;; 0.0063
        2\cdot 10^5 ;; 200000
    """,
    "beyond reach": r"""
        \frac{\pi}{2} ;; 90^\circ
        \frac{1}{2} ;; \cos 60^\circ
        \text{no solution} ;; \emptyset
        12 ;; \text{twelve}
        60\text{ min} ;; 1\text{ hour}
        1000\pi ;; 1,000\pi
    """,
}

DIFFERENT = {
    "fractions": r"""
        \frac{1}{2} ;; \frac{1}{3}
        \frac{1}{2} ;; \frac{2}{1}
        \frac{1}{3} ;; 0.333
        \frac{1}{3} ;; 0.3333333
        \frac{22}{7} ;; 3.142857
        \frac{3}{5} ;; \frac{3}{5}x
        3\frac{1}{2} ;; \frac{3}{2}
        \frac{1}{0} ;; 1
        \frac{11}{2} ;; 1 1/2
        1 1/2 ;; 11/2
    """,
    "roots and powers": r"""
        \sqrt{2} ;; 1.414214
        \sqrt{2} ;; \sqrt{3}
        \sqrt{x^2} ;; x
        2^{10} ;; 1023
        2^{10} ;; 20
        \pi ;; 3.14159
        \pi ;; 3.14159265
        \sqrt[3]{8} ;; \sqrt{8}
        100! ;; 101!
        \sqrt{2} ;; 10^{400}
        2\pi ;; 1e400
    """,
    "algebra": r"""
        3x ;; 3y
        x ;; y
        x=3 ;; y=3
        1+2i ;; 1-2i
        |x| ;; x
        \log 2 ;; \ln 2
        x^2+y^2=1 ;; 1
        x^2+y^2=1 ;; x^2+y^2=2
        (x+1)^2 ;; x^2+1
        -x ;; x
        n(n+1) ;; \frac{n(n+1)}{2}
        6 ;; 3x = 6
        6 ;; -x = 6
        \frac{6}{5} ;; 6 = 5
    """,
    "intervals": r"""
        (2,3) ;; [2,3]
        (2,3) ;; (3,2)
        (1,2) ;; (1,2,3)
        (-\infty,3] ;; (-\infty,3)
        (-\infty,2)\cup(3,\infty) ;; (-\infty,2]\cup(3,\infty)
        (0,9)\cup(9,36) ;; (0,36)
        x<3 ;; x\le 3
        x<3 ;; x>3
        x<=5 ;; x>=5
        x \le 5 ;; x>=5
        5 ;; x>=5
        5 ;; x \ge 5
        5 ;; x \neq 5
    """,
    "sets and lists": r"""
        \{1,2\} ;; \{1,3\}
        \{1,2\} ;; \{1,2,3\}
        5 ;; 3,5
        5 ;; 3 \text{ or } 5
        1,2 ;; (2,1)
        -1,3,3 ;; -1,3
        2 ;; (\sqrt{2}, 2)
        2 ;; 2, \sqrt{2}
        2, 3, \text{ and } 4 ;; 2, 3, \text{ and } 5
        x=1, y=2 ;; x=2, y=1
        x=1, y=2 ;; (2,1)
        (1,2) ;; y=1, x=2
        \text{A,B} ;; \text{A,C}
        \emptyset ;; 0
        \emptyset ;; \{0\}
        1,2 ;; 1e999e999e999e999e999, 1
        12 ;; 1 2
        1 2 ;; 12
        12 ;; 12\quad 13
        12 ;; 12\text{ and }13
        12\text{ and }13 ;; 12
    """,
    "units": r"""
        5\text{ cm} ;; 5\text{ m}
        80\text{ cents} ;; 80\text{ dollars}
        5\text{ cm} ;; 6\text{ cm}
        8\text{ inches} ;; 8\text{ feet}
        32\text{ cm}^2 ;; 32\text{ cm}^3
        480 + 480\sqrt{3}\text{ feet} ;; 480
        15\text{ m/s} ;; 15\text{ km/h}
        15\text{ m/s} ;; 15\text{ m/s}^2
        \$5 ;; 5\%
        \$5 ;; 5\text{ cents}
        90^\circ ;; 90\%
        5 ;; 5\text{ apples and }6\text{ pears}
        5 ;; 5\text{ apples and 6 pears}
        5 ;; 5\text{ apples or }\frac{13}{2}\text{ pears}
        5 ;; 5\text{ m }6\text{ cm}
        5 ;; 5\text{ or 6}
        5 ;; 5\text{ apples};6\text{ pears}
        5 ;; 5\text{ apples}+6\text{ pears}
        5 ;; 5\text{ apples}/6\text{ pears}
        5 ;; 5\text{ apples}:6\text{ pears}
        5 ;; 5\text{ apples}|6\text{ pears}
        5 ;; 5\text{ apples}\cdot 6\text{ pears}
        5 ;; 5\text{ apples}\pm 6\text{ pears}
        5 ;; 5\text{ apples}\to 6\text{ pears}
        5 ;; 5\text{ apples}\\6\text{ pears}
        5 ;; 5\text{ apples}\quad 6\text{ pears}
        5 ;; 5\text{ apples}\lor 6\text{ pears}
        6 ;; 5\text{ apples};6\text{ pears}
        6 ;; 5\text{ apples}\to 6\text{ pears}
        5 ;; 5\text{ x}\text{ or }6\text{ y}
        5 ;; 5\textbf{ x};6\textbf{ y}
        5 ;; 5\mathsf{x};6\mathsf{y}
        5 ;; 5\text{6}
        5 ;; 5\text{-6}
    """,
    "percent": r"""
        10\% ;; 1
        10\% ;; 100\%
        0.1 ;; 1\%
        50\% ;; 0.05
    """,
    "thousands": r"""
        1,000 ;; 1
        1,000 ;; 10,000
        1000 ;; 1,0
        1,234 ;; 1.234
    """,
    "degrees": r"""
        90^\circ ;; 9
        90^\circ ;; 91^\circ
        30^\circ ;; 30\pi
    """,
    "text": r"""
        \text{Tuesday} ;; \text{Thursday}
        \text{even} ;; \text{odd}
        \text{even} ;; \text{neve}
        \text{(B)} ;; \text{(C)}
        \text{CBAD} ;; ABCD
        \text{Tuesday} ;; 2
        A ;; a
        \text{ab} ;; ba
        \text{ Monday} ;; \text{ Tuesday}
    """,
    "matrices": r"""
        \begin{pmatrix}1&2\\3&4\end{pmatrix} ;; \begin{pmatrix}1&2\\3&5\end{pmatrix}
        \begin{pmatrix}1\\2\end{pmatrix} ;; \begin{pmatrix}1&2\end{pmatrix}
        \begin{pmatrix}1&2\\3&4\end{pmatrix} ;; \begin{pmatrix}1&3\\2&4\end{pmatrix}
        \begin{pmatrix}1\\2\end{pmatrix} ;; 1
    """,
    "bases": r"""
        11_2 ;; 11
        11_2 ;; 3
        11 ;; 11_2
        11_2 ;; 11_3
        \text{A5}_{11} ;; A_{11}
        11 ;; 11_16
        77 ;; 77_11
        11 ;; 11_{(8)}
        11 ;; 11_b
        11.5 ;; 11.5_{12}
        11 ;; 11\text{ (base 8)}
        11 ;; 11\text{ in base eight}
    """,
    "zeros": r"""
        34 ;; 340
        0.5 ;; 0.05
        1.06 ;; 1.6
        100 ;; 1
        0 ;; 0.\overline{3}
        7 ;; -7
    """,
    "plus or minus": r"""
        \pm 3 ;; 3
        3 ;; \pm 3
        2\pm\sqrt{3} ;; 2+\sqrt{3}
        \pm 3 ;; \pm 4
        \infty ;; -\infty
    """,
    "decimals": r"""
        4.5e33 ;; 4.5e32
        4.5\times10^{33} ;; 4.5
        0.0063 ;; 6.3
        2.5 ;; 2,5
    """,
    "not an answer": r"""
        5 ;; 5\text{ m}=6\text{ m}
        5 ;; 5\text{ m}=6
        6 ;; 5\text{ m}=6
        5 ;; \$5=\$6
        10 ;; 10\%=20\%
        5 ;; 5\text{ m} \approx 6\text{ m}
        5 ;; ?
        5 ;; \text{I do not know}
        0 ;; \text{}
        5 ;; 5 \text{ or something else}
        5 ;; maybe 3 or 4 or 5
        1 ;; 1=0
        42 ;; 4 2 1
        5 ;; 6 = 5
        \sqrt{2} ;; \sqrt{2} \approx 1.732
        2 ;; \approx 2
        2 ;; 2 \approx 3
        12 ;; 12\ldots
        12 ;; 12...
    """,
}


def pairs(table: dict[str, str]) -> list[tuple[str, str, str]]:
    """(kind, reference, answer) of every line."""
    return [
        (kind, *(side.strip() for side in line.split(";;")))
        for kind, lines in table.items()
        for line in lines.strip().splitlines()
    ]
